#include "model/report/result_origin.hpp"

#include <algorithm>

#include "model/base/error.hpp"

namespace tandem::model {
namespace {

const ResultOriginNames& names_of(ResultOrigin origin) {
  const auto* const found = std::ranges::find(kResultOrigins, origin, &ResultOriginNames::origin);
  require(found != kResultOrigins.end(), "result origin: not in the table of names");
  return *found;
}

}  // namespace

std::string_view kind_of(ResultOrigin origin) { return names_of(origin).kind; }
std::optional<std::string_view> pace_of(ResultOrigin origin) { return names_of(origin).pace; }

}  // namespace tandem::model
