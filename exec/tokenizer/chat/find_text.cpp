#include "exec/tokenizer/chat/find_text.hpp"

#include <cstring>
#include <string>

namespace tandem::exec::chat {

std::size_t find_first(Budget& budget, std::string_view text, std::string_view needle,
                       std::size_t from) {
  if (from > text.size() || needle.size() > text.size() - from) return std::string_view::npos;
  // std::string_view::find takes time proportional to the product of both lengths for texts such
  // as a...ab in a...a; memmem of the GNU C library is linear.
  const std::string_view rest = text.substr(from);
  const void* const place = ::memmem(rest.data(), rest.size(), needle.data(), needle.size());
  const std::size_t found =
      place == nullptr ? std::string_view::npos
                       : static_cast<std::size_t>(static_cast<const char*>(place) - text.data());
  const std::size_t end = place == nullptr ? text.size() : found + needle.size();
  budget.read((end - from) * 4 + 16);
  return found;
}

std::size_t find_last(Budget& budget, std::string_view text, std::string_view needle) {
  constexpr std::size_t kShortNeedle = 32;
  if (needle.size() > text.size()) return std::string_view::npos;
  if (needle.size() <= kShortNeedle) {
    budget.read(text.size() * 4 + 16);
    return text.rfind(needle);
  }
  budget.make(text.size() + needle.size());
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_needle(needle.rbegin(), needle.rend());
  const std::size_t found = find_first(budget, reversed_text, reversed_needle);
  return found == std::string::npos ? found : text.size() - found - needle.size();
}

}  // namespace tandem::exec::chat
