#include <tandem/version.hpp>

namespace tandem {

std::string_view version() { return TANDEM_VERSION; }

}  // namespace tandem
