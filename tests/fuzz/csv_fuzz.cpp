// Tables: any text is a table that is written alike again, or one Error.

#include <string>

#include "model/base/csv.hpp"
#include "tests/fuzz/parser.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::model;
  return tandem::fuzz::check_parser(data, size, parse_csv, [](const Csv& csv) {
    std::string text = csv_line(csv.header);
    for (const auto& row : csv.rows) text += csv_line(row);
    return text;
  });
}
