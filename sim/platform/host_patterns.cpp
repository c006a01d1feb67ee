#include "sim/platform/host_patterns.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <unordered_map>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::sim {
namespace {

// fnmatch(3) knows sets and escapes as well.
std::string for_fnmatch(const std::string& pattern) {
  std::string escaped;
  escaped.reserve(pattern.size());
  for (const char c : pattern) {
    if (c == '[' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

[[noreturn]] void refuse(const HostPatterns& chosen, const std::string& pattern,
                         const std::vector<std::string>& names, const std::string& source) {
  constexpr std::size_t kNamed = 8;
  std::string known;
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i)
    known.append(i == 0 ? "" : ", ").append(names[i]);
  const auto with_comma = std::ranges::find_if(
      names, [](const std::string& name) { return name.find(',') != std::string::npos; });
  throw Error(source + ": '" + model::one_line(pattern, 60) + "' of " + chosen.flag +
              " is no host, expected some of its " + std::to_string(names.size()) + ": " + known +
              (names.size() > kNamed ? ", ..." : "") + "; " + chosen.remedy +
              (with_comma == names.end() ? ""
               : chosen.flag == "--hosts"
                   ? " (commas part names: write ? for one in a name, as in " +
                         pattern_of(*with_comma) + ")"
                   : " (commas part names: rename " + *with_comma + " in the file to choose it)"));
}

}  // namespace

std::vector<std::size_t> chosen_hosts(const HostPatterns& chosen,
                                      const std::vector<std::string>& names,
                                      const std::string& source) {
  std::vector<bool> is_chosen(names.size(), chosen.patterns.empty());
  std::unordered_map<std::string, std::size_t> places;
  if (!chosen.patterns.empty()) {
    for (std::size_t i = 0; i < names.size(); ++i) places.emplace(names[i], i);
  }
  for (const std::string& pattern : chosen.patterns) {
    if (const auto exact = places.find(pattern); exact != places.end()) {
      is_chosen[exact->second] = true;
      continue;
    }
    const std::string escaped = for_fnmatch(pattern);
    bool found = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (::fnmatch(escaped.c_str(), names[i].c_str(), 0) != 0) continue;
      is_chosen[i] = true;
      found = true;
    }
    if (!found) refuse(chosen, pattern, names, source);
  }
  std::vector<std::size_t> positions;
  positions.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (is_chosen[i]) positions.push_back(i);
  }
  return positions;
}

std::string pattern_of(std::string name) {
  std::ranges::replace(name, ',', '?');
  return name;
}

}  // namespace tandem::sim
