#pragma once

// Comma-separated tables (RFC 4180, fields without line breaks): the numbers of papers, the rows of
// a sweep.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::model {

struct Csv {
  std::vector<std::string> header{};
  std::vector<std::vector<std::string>> rows{};  // as many fields as the header
  std::vector<std::size_t> lines{};              // of the text, from 1: where each row stands
  // The position of the column called `name`. Throws logic_error if there is none.
  [[nodiscard]] std::size_t column(std::string_view name) const;
  // The field of a row in a column. Throws logic_error or out_of_range if there is none.
  [[nodiscard]] const std::string& at(std::size_t row, std::string_view name) const;
};

// Reads a table. Throws Error (source:line, what is wrong, remedy) for an empty text, a quote out
// of place or rows of another length than the header, and beyond 10^7 fields.
[[nodiscard]] Csv parse_csv(std::string_view text, std::string_view source);

// One line, with its line break; fields are quoted where they must be.
[[nodiscard]] std::string csv_line(const std::vector<std::string>& fields);

}  // namespace tandem::model
