#include "model/base/quantity_text.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::quantity_text_test {

using test::contains;
using test::error_of;

TEST_CASE("model/quantity_text: values in SimGrid's units") {
  CHECK(parse_seconds("5ms", "x").value() == doctest::Approx(5e-3));
  CHECK(parse_seconds("2m", "x").value() == 120.0);
  CHECK(parse_seconds("0s", "x").value() == 0.0);
  CHECK(parse_seconds("1.5e-3 s", "x").value() == doctest::Approx(1.5e-3));
  CHECK(parse_rate("300Mbps", "x").value() == 37.5e6);
  CHECK(parse_rate("1Kibps", "x").value() == 128.0);
  CHECK(parse_rate("125MBps", "x").value() == 125e6);
  CHECK(parse_rate("1GiBps", "x").value() == 1073741824.0);
  CHECK(parse_bytes("8GiB", "x").value() == 8589934592.0);
  CHECK(parse_bytes("1.5MB", "x").value() == 1.5e6);
  CHECK(parse_flops("1.5Gf", "x").value() == 1.5e9);
  CHECK(parse_flops(".5Tf", "x").value() == 0.5e12);
}

TEST_CASE("model/quantity_text: a value without its unit or number is an error that names it") {
  for (const char* bad : {"", "5", "ms", "-5ms", "+5ms", "inf s", "infs", "nan", "5 5ms", "5msx",
                          "5MS", " 5ms", "1e999s", "0x1ps", "5ms ", "5  ms", "5bps", "1e308w"}) {
    CAPTURE(bad);
    const std::string message = error_of([&] { return parse_seconds(bad, "link 'l': latency"); });
    CHECK(contains(message, "link 'l': latency: '"));
    CHECK(contains(message, "5ms"));  // the remedy's example
  }
  CHECK(contains(error_of([] { return parse_rate("300Mb", "x"); }), "Mbps"));
  CHECK(contains(error_of([] { return parse_bytes("8Gib", "x"); }), "GiB"));
  CHECK(contains(error_of([] { return parse_flops("1.5Gflops", "x"); }), "Gf"));
  CHECK(error_of([] { return parse_bytes(std::string(100000, '9'), "x"); }).size() < 400);
}

TEST_CASE("model/quantity_text: three digits with the unit that fits") {
  CHECK(to_text(Seconds{0.0123456}) == "12.3 ms");
  CHECK(to_text(Seconds{0.0}) == "0 s");
  CHECK(to_text(Seconds{0.99996}) == "1 s");
  CHECK(to_text(Seconds{0.9994}) == "999 ms");
  CHECK(to_text(Seconds{2.5e-9}) == "2.5 ns");
  CHECK(to_text(Seconds{7200.0}) == "7200 s");
  CHECK(to_text(Seconds{9999.4}) == "9999 s");
  CHECK(to_text(Seconds{9999.6}) == "2.78 h");
  CHECK(to_text(Seconds{8.25e6}) == "95.5 d");
  CHECK(to_text(Bytes{1.64 * 1073741824.0}) == "1.64 GiB");
  CHECK(to_text(Bytes{512.0}) == "512 B");
  CHECK(to_text(BytesPerSecond{37.5e6}) == "37.5 MBps");
  CHECK(to_text(FlopsPerSecond{8.05e9}) == "8.05 Gf");
  CHECK(to_text(Seconds{std::numeric_limits<double>::quiet_NaN()}) == "nan ns");
}

TEST_CASE("model/quantity_text: what is printed parses back to three digits") {
  for (double value = 1.234e-9; value < 1e5; value *= 3.7) {
    CAPTURE(value);
    CHECK(parse_seconds(to_text(Seconds{value}), "x").value() ==
          doctest::Approx(value).epsilon(6e-3));
    const double big = value * 1e9;
    CHECK(parse_bytes(to_text(Bytes{big}), "x").value() == doctest::Approx(big).epsilon(6e-3));
    CHECK(parse_rate(to_text(BytesPerSecond{big}), "x").value() ==
          doctest::Approx(big).epsilon(6e-3));
    CHECK(parse_flops(to_text(FlopsPerSecond{big}), "x").value() ==
          doctest::Approx(big).epsilon(6e-3));
  }
}

}  // namespace tandem::model::quantity_text_test
