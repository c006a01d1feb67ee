#pragma once

// Searches texts in time linear in both lengths, for any input.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/tokenizer/chat/template_budget.hpp"

namespace tandem::exec::chat {

// Finds one text in others. Short ones by std::string_view::find; long ones by the algorithm of
// Knuth, Morris and Pratt (SIAM J. Comput. 6(2), 1977), as naive search takes time proportional to
// the product of both lengths for texts such as a...ab in a...a. Charges the bytes read to the
// budget.
class TextFinder {
 public:
  // `needle` must outlive it.
  TextFinder(Budget& budget, std::string_view needle);
  // Returns the byte of the first occurrence at or behind byte `from`; npos if there is none.
  [[nodiscard]] std::size_t find(std::string_view text, std::size_t from);

 private:
  Budget* budget_;
  std::string_view needle_;
  std::vector<std::uint32_t> borders_;  // of the needle's prefixes; empty: a short needle
};

// Returns the byte of the last occurrence of `needle` in `text`; npos if there is none.
[[nodiscard]] std::size_t find_last(Budget& budget, std::string_view text, std::string_view needle);

}  // namespace tandem::exec::chat
