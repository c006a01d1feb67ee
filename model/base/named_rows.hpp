#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::model {

// Returns `rows`, the table that `table` names. Throws logic_error if two of them have one name: it
// would find the first, and nothing the second.
template <class Row>
std::vector<Row> named_rows(std::string_view table, std::vector<Row> rows) {
  for (auto row = rows.begin(); row != rows.end(); ++row) {
    require(std::find_if(rows.begin(), row,
                         [&](const Row& other) { return other.name == row->name; }) == row,
            std::string(table) + ": two have the name '" + std::string(row->name) +
                "', expected one of its own for each; rename one");
  }
  return rows;
}

}  // namespace tandem::model
