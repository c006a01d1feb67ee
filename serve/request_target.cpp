#include "serve/request_target.hpp"

#include <algorithm>

#include "serve/access.hpp"

namespace tandem::serve {
namespace {

std::string path_of(std::string_view target) {
  return std::string(target.substr(0, target.find_first_of("?#")));
}

}  // namespace

std::optional<RequestTarget> parse_target(std::string_view target) {
  if (target == "*") return RequestTarget{.path = "*"};
  if (target.starts_with('/')) return RequestTarget{.path = path_of(target)};
  const std::string_view rest = without_scheme(target);
  const std::size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  if (end == 0) return std::nullopt;
  const std::string path = path_of(rest.substr(end));
  return RequestTarget{.path = path.empty() ? "/" : path,
                       .authority = std::string(rest.substr(0, end))};
}

}  // namespace tandem::serve
