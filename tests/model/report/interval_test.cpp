#include "model/report/interval.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::interval_test {
namespace {

using test::contains;
using test::error_of;

std::optional<TimeIntervals> read(const std::string& text) {
  const JsonDocument document("{\"interval_90\":" + text + "}", "r.json", "write it again",
                              {.bytes = 4096, .depth = 8});
  return read_intervals(document.root().at("interval_90"));
}

TimeIntervals some() {
  return {.ttft_s = Interval{1.0 / 3.0, 0.5},
          .end_s = Interval{0.0, 2.0},
          .token_latency_s =
              LatencyIntervals{.mean = {1, 2}, .p50 = {0.5, 1}, .p90 = {2, 3}, .p99 = {2, 4}}};
}

}  // namespace

TEST_CASE("model/interval: from the 5th to the 95th percentile, and what is predicted") {
  std::vector<double> draws;
  for (int i = 0; i <= 100; ++i) draws.push_back(i);
  CHECK(interval_90(draws, 50.0) == Interval{5.0, 95.0});
  SUBCASE("a value outside the draws' percentiles is an end") {
    CHECK(interval_90(draws, 2.0) == Interval{2.0, 95.0});
    CHECK(interval_90(draws, 200.0) == Interval{5.0, 200.0});
  }
  SUBCASE("equal draws are an interval of no width") {
    CHECK(interval_90({7.0, 7.0, 7.0}, 7.0) == Interval{7.0, 7.0});
  }
  SUBCASE("nothing of what is no number") {
    CHECK(!interval_90({}, 1.0));
    CHECK(!interval_90(draws, std::numeric_limits<double>::quiet_NaN()));
    draws[3] = std::numeric_limits<double>::infinity();
    CHECK(!interval_90(draws, 50.0));
  }
}

TEST_CASE("model/interval: JSON reads back equal, and what is absent is left out") {
  CHECK(read(interval_json(some()).dump()) == some());
  CHECK(read("null") == std::nullopt);
  CHECK(interval_json(std::nullopt).is_null());
  CHECK(!interval_json(some()).contains("queueing_s"));
}

TEST_CASE("model/interval: faults of JSON are one error each") {
  CHECK(contains(error_of([] { return read(R"({"ttft_s": [2, 1]})"); }), "the lower first"));
  CHECK(contains(error_of([] { return read(R"({"ttft_s": [1]})"); }), "[low, high]"));
  CHECK(contains(error_of([] { return read(R"({"ttft_s": 1})"); }), "ttft_s"));
  CHECK(contains(error_of([] { return read(R"({"ttft_s": [-1, 1]})"); }), "ttft_s"));
  CHECK(contains(error_of([] { return read(R"({"ttft": [1, 2]})"); }), "ttft"));
  CHECK(contains(error_of([] { return read(R"({"token_latency_s": {"mean": [1, 2]}})"); }), "p50"));
}

TEST_CASE("model/interval: in brackets, with units where they differ") {
  CHECK(to_text(Seconds{1.9}, Interval{1.7, 2.2}) == "1.9 s (1.7 to 2.2)");
  CHECK(to_text(Seconds{1.1}, Interval{0.9, 1.3}) == "1.1 s (900 ms to 1.3 s)");
  CHECK(to_text(Seconds{1.1}, std::nullopt) == "1.1 s");
  CHECK(to_text(Seconds{0.0}, Interval{0.0, 0.0}) == "0 s (0 to 0)");
}

}  // namespace tandem::model::interval_test
