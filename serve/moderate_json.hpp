#pragma once

// What of a client's or a model's JSON may be parsed in the order of its members.

#include <cstddef>
#include <string_view>

namespace tandem::serve {

inline constexpr int kMostDepth = 64;              // a level of a schema is two of JSON
inline constexpr std::size_t kMostMembers = 1024;  // of an object

// Returns whether no object of `json` has more than kMostMembers members, and nothing lies deeper
// than kMostDepth. Parsing with the order of members takes time with the square of an object's
// members, and copies what it parsed by recursion. `json` may be no JSON.
[[nodiscard]] bool is_moderate(std::string_view json);

}  // namespace tandem::serve
