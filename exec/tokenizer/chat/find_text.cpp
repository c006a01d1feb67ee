#include "exec/tokenizer/chat/find_text.hpp"

namespace tandem::exec::chat {
namespace {

constexpr std::size_t kShortNeedle = 32;

}  // namespace

TextFinder::TextFinder(Budget& budget, std::string_view needle)
    : budget_(&budget), needle_(needle) {
  if (needle.size() <= kShortNeedle) return;
  budget.make(needle.size() * sizeof(std::uint32_t));
  borders_.resize(needle.size());
  std::uint32_t border = 0;
  for (std::size_t at = 1; at < needle.size(); ++at) {
    while (border > 0 && needle[at] != needle[border]) border = borders_[border - 1];
    if (needle[at] == needle[border]) ++border;
    borders_[at] = border;
  }
}

std::size_t TextFinder::find(std::string_view text, std::size_t from) {
  if (from > text.size() || needle_.size() > text.size() - from) return std::string_view::npos;
  std::size_t found = std::string_view::npos;
  std::size_t end = text.size();
  if (borders_.empty()) {
    found = text.find(needle_, from);
  } else {
    std::uint32_t border = 0;
    for (std::size_t at = from; at < text.size(); ++at) {
      while (border > 0 && text[at] != needle_[border]) border = borders_[border - 1];
      if (text[at] == needle_[border]) ++border;
      if (border < needle_.size()) continue;
      found = at + 1 - needle_.size();
      break;
    }
  }
  if (found != std::string_view::npos) end = found + needle_.size();
  // Naive search compares at most the whole needle at each byte, mostly one character.
  budget_->read((end - from) * 4 + 16);
  return found;
}

std::size_t find_last(Budget& budget, std::string_view text, std::string_view needle) {
  if (needle.size() > text.size()) return std::string_view::npos;
  if (needle.size() <= kShortNeedle) {
    budget.read(text.size() * 4 + 16);
    return text.rfind(needle);
  }
  budget.make(text.size() + needle.size());
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_needle(needle.rbegin(), needle.rend());
  const std::size_t found = TextFinder(budget, reversed_needle).find(reversed_text, 0);
  return found == std::string::npos ? found : text.size() - found - needle.size();
}

}  // namespace tandem::exec::chat
