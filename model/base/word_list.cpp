#include "model/base/word_list.hpp"

#include <algorithm>
#include <cstddef>

#include "model/base/plain_text.hpp"

namespace tandem::model {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

std::vector<std::string> split_list(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known) {
  std::vector<std::string> lower;
  lower.reserve(known.size());
  for (const std::string_view name : known) lower.push_back(lower_case(name));
  const std::string_view guess =
      nearest(lower_case(word), std::vector<std::string_view>(lower.begin(), lower.end()));
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (lower[i] == guess) return ", did you mean '" + std::string(known[i]) + "'?";
  }
  return "";
}

}  // namespace tandem::model
