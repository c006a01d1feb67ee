#include "model/base/csv.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::csv_test {

using test::contains;
using test::error_of;

TEST_CASE("model/csv: a field is quoted only where it must be, and reads back") {
  CHECK(csv_line({"a", "b c", ""}) == "a,b c,\n");
  CHECK(csv_line({"a,b", "say \"x\""}) == "\"a,b\",\"say \"\"x\"\"\"\n");
  CHECK(csv_line({""}) == "\"\"\n");
  const std::vector<std::string> fields{"1", "", "a,b", "\"", "x\ry"};
  const Csv csv = parse_csv(csv_line({"p", "q", "r", "s", "t"}) + csv_line(fields), "x");
  REQUIRE(csv.rows.size() == 1);
  CHECK(csv.rows[0] == fields);
  CHECK(csv.at(0, "r") == "a,b");
}

TEST_CASE("model/csv: rows know their lines, of which empty ones count and are passed over") {
  const Csv csv = parse_csv("h\r\n\r\n1\n\n2\n", "x");
  CHECK(csv.rows.size() == 2);
  CHECK(csv.lines == std::vector<std::size_t>{3, 5});
}

TEST_CASE("model/csv: what is no table costs one line with its place") {
  const auto fault = [](const std::string& text) {
    return error_of([&] { (void)parse_csv(text, "t.csv"); });
  };
  CHECK(contains(fault(""), "t.csv: empty"));
  CHECK(contains(fault("a,b\n1\n"), "t.csv:2: 1 fields, expected 2"));
  CHECK(contains(fault("a\n\"1\n"), "t.csv:2: no closing quote"));
  CHECK(contains(fault("a\n1\"2\"\n"), "t.csv:2: a quote within a field"));
  CHECK(contains(fault("a\n\"1\"2\n"), "t.csv:2: text after a closing quote"));
}

}  // namespace tandem::model::csv_test
