#include "model/base/word_list.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

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

namespace {

// The letters and digits of `text`, in lower case: "llama3170b".
std::string essence(std::string_view text) {
  std::string kept = lower_case(text);
  std::erase_if(kept, [](char c) { return !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'); });
  return kept;
}

// Whether `text` is `word` with more characters anywhere between its own.
bool is_spread(std::string_view word, std::string_view text) {
  for (const char c : text) {
    if (!word.empty() && word.front() == c) word.remove_prefix(1);
  }
  return word.empty();
}

// The shortest known word that has all letters and digits of `word` in order and few more, or
// nothing. "llama3-70b" is rather "llama-3.1-70b" than "llama-2-70b", of which nearest() knows no
// difference.
std::string_view completed(std::string_view word, const std::vector<std::string_view>& known) {
  constexpr std::size_t kTelling = 3;
  const std::string wanted = essence(word);
  std::string_view best;
  std::size_t least = wanted.size() + std::max<std::size_t>(2, wanted.size() / 3) + 1;
  if (wanted.size() < kTelling) return best;
  for (const std::string_view name : known) {
    const std::string candidate = essence(name);
    if (candidate.size() >= least || !is_spread(wanted, candidate)) continue;
    least = candidate.size();
    best = name;
  }
  return best;
}

}  // namespace

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known) {
  const std::string_view whole = completed(word, known);
  if (!whole.empty()) return ", did you mean '" + std::string(whole) + "'?";
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
