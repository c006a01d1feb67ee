// JSON of others: what is checked of the whole text.

#include "model/base/json_value.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::test::json_value_test {
namespace {

TEST_CASE("model/json: many elements are parsed in a time that grows with their number") {
  constexpr std::size_t kElements = 200'000;  // minutes, if it grew with the square
  std::string text = R"({"x": [{})";
  for (std::size_t i = 1; i < kElements; ++i) text += ",{}";
  text += "]}";
  const auto parsed = model::parse_json(text, "t", "r");
  CHECK(parsed["x"].size() == kElements);
  CHECK(parsed == nlohmann::json::parse(text));
}

TEST_CASE("model/json: each fault of a text has its message") {
  const model::JsonLimits limits{.bytes = 60, .depth = 3};
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "t: not JSON: empty, expected a JSON object; r"},
           {"{", "t: not JSON: it ends too early, after 1 byte, expected a JSON object; r"},
           {R"({"a": x})", "t: not JSON at byte 7 of 8, expected a JSON object; r"},
           {R"({"a": [0.0, Infinity]})",
            "t: not JSON at byte 13 of 22, where 'Infinity' is no number of JSON, expected a JSON "
            "object; r"},
           {R"({"a": 1} 2)", "t: not JSON at byte 10 of 10, expected a JSON object; r"},
           {"[1]", "t: the document is an array of 1, expected a JSON object; r"},
           {R"({"a": 1e999})",
            "t: a number beyond the range of a double, expected finite numbers; r"},
           {R"({"a": {"b": 1, "b": 2}})",
            R"(t: field "b" is given twice in one object, expected once; r)"},
           {R"({"a": [[[]]]})", "t: JSON nested deeper than 3 levels, expected fewer; r"},
           {R"({"a": [{"b": {)", "t: JSON nested deeper than 3 levels, expected fewer; r"},
           {R"({"a": ")" + std::string(60, 'x') + "\"}",
            "t: 69 bytes of JSON, expected at most 60; r"}}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS((void)model::parse_json(text, "t", "r", limits), message.c_str(), Error);
  }
  // Keys of different objects.
  CHECK(model::parse_json(R"({"a": {"a": [{"a": 1}, {"a": 2}]}})", "t", "r").size() == 1);
  CHECK(model::parse_json(R"({"a": [[1], {}]})", "t", "r", limits).size() == 1);
}

}  // namespace
}  // namespace tandem::test::json_value_test
