#pragma once

#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::model {

// A table for the terminal: the first column to the left, the others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  // Throws logic_error unless there are as many cells as columns.
  void add(std::vector<std::string> cells);
  void print(std::ostream& out) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// `value` with `digits` decimals ("12.30").
[[nodiscard]] std::string fixed(double value, int digits);

}  // namespace tandem::model
