#include "tests/support/source_tree.hpp"

namespace tandem::testing {

std::filesystem::path in_sources(std::string_view path) {
  return std::filesystem::path(TANDEM_SOURCE_DIR) / path;
}

std::filesystem::path program(std::string_view name) {
  return std::filesystem::path(TANDEM_PROGRAM_DIR) / name;
}

}  // namespace tandem::testing
