#include "model/base/plain_text.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/quantity_text.hpp"

namespace tandem::model::plain_text_test {

TEST_CASE("model/plain text: what a peer says is ASCII, and no longer than asked for") {
  CHECK(printable("a\x1b[2Jb\n\xc3\xa9", 100) == "a?[2Jb???");
  CHECK(printable("abcdef", 3) == "abc");
  CHECK(printable("", 3).empty());
}

TEST_CASE("model/plain text: a long name ends in dots, a short one is as it is") {
  CHECK(one_line("sofa", 4) == "sofa");
  CHECK(one_line("sofas", 4) == "sofa...");
  CHECK(one_line("a\nb", 10) == "a b");
  CHECK(one_line(std::string(1000, 'x'), 60).size() == 63);
}

TEST_CASE("model/plain text: the nearest word is the only one that begins alike") {
  const std::vector<std::string_view> known{"help", "temperature", "top-k", "top-p"};
  CHECK(nearest("temp", known) == "temperature");
  CHECK(nearest("top", known) == "top-k");  // two begin so: by letters
  CHECK(nearest("te", known).empty());
}

TEST_CASE("model/plain text: the nearest word is at most two letters off, or a third of them") {
  const std::vector<std::string_view> known{"simulate", "plan", "platform"};
  CHECK(nearest("simulte", known) == "simulate");
  CHECK(nearest("paln", known) == "plan");
  CHECK(nearest("platfrom", known) == "platform");
  CHECK(nearest("worker", known).empty());
  CHECK(nearest("x", known).empty());
}

TEST_CASE("model/quantity text: the shortest text of a number reads back as that number") {
  CHECK(shortest_text(0.1) == "0.1");
  CHECK(shortest_text(3.0) == "3");
  CHECK(shortest_text(1e-9) == "1e-09");
  for (const double value : {1.0 / 3.0, 1e300, -2.5, 123456789.123456789}) {
    CAPTURE(value);
    CHECK(std::stod(shortest_text(value)) == value);
  }
}

}  // namespace tandem::model::plain_text_test
