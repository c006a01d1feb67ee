// Workloads by chance.

#include "planner/serving/drawn_requests.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::test::drawn_requests_test {
namespace {

using planner::InferenceRequest;
using planner::RequestDraw;

constexpr std::int64_t kMany = 20000;

RequestDraw many() {
  return {.count = kMany,
          .rate = 4.0,
          .prompt = {.median = 1000, .p99 = 9000},
          .output = {.median = 300, .p99 = 600},
          .seed = 7};
}

double quantile(std::vector<std::int64_t> values, double q) {
  std::ranges::sort(values);
  return static_cast<double>(values[static_cast<std::size_t>(q * static_cast<double>(kMany))]);
}

std::vector<std::int64_t> lengths_of(const std::vector<InferenceRequest>& requests,
                                     std::int64_t InferenceRequest::*length) {
  std::vector<std::int64_t> lengths;
  for (const InferenceRequest& request : requests) lengths.push_back(request.*length);
  return lengths;
}

}  // namespace

// Of n draws a quantile's standard error in ln is sqrt(q (1 - q) / n) / density, with sigma 0.94
// below 1% at the median and 3% at the 99th percentile: bounds of five of them.
TEST_CASE("planner/drawn requests: lengths have the median and percentile asked for") {
  const auto requests = planner::drawn_requests(many());
  const auto prompts = lengths_of(requests, &InferenceRequest::prompt_tokens);
  const auto outputs = lengths_of(requests, &InferenceRequest::new_tokens);
  CHECK(std::abs(std::log(quantile(prompts, 0.5) / 1000)) < 0.05);
  CHECK(std::abs(std::log(quantile(prompts, 0.99) / 9000)) < 0.13);
  CHECK(std::abs(std::log(quantile(outputs, 0.5) / 300)) < 0.02);
  CHECK(std::abs(std::log(quantile(outputs, 0.99) / 600)) < 0.05);
}

TEST_CASE("planner/drawn requests: arrivals are a Poisson process") {
  const auto requests = planner::drawn_requests(many());
  double before = 0.0;
  double squares = 0.0;
  std::vector<double> gaps;
  for (const InferenceRequest& request : requests) {
    CHECK(request.arrival_s >= before);
    gaps.push_back(request.arrival_s - before);
    squares += gaps.back() * gaps.back();
    before = request.arrival_s;
  }
  // Exponential gaps: mean 1/4 s to 5 / sqrt(n), E[x^2] = 2 / 16 to 5 sqrt(20) / 2 / sqrt(n), and
  // a part 1/e longer than the mean.
  constexpr double kError = 5.0 / 141.0;
  CHECK(before / kMany == doctest::Approx(0.25).epsilon(kError));
  CHECK(squares / kMany == doctest::Approx(0.125).epsilon(2.3 * kError));
  CHECK(static_cast<double>(std::ranges::count_if(gaps, [](double g) { return g > 0.25; })) /
            kMany ==
        doctest::Approx(std::exp(-1.0)).epsilon(kError));
}

TEST_CASE("planner/drawn requests: a seed gives the same, other rates and ids the same lengths") {
  RequestDraw draw = many();
  draw.count = 50;
  const auto first = planner::drawn_requests(draw);
  CHECK(planner::drawn_requests(draw) == first);
  RequestDraw slower = draw;
  slower.rate = 1.0;
  slower.vocabulary = 11;
  const auto others = planner::drawn_requests(slower);
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(others[i].prompt_tokens == first[i].prompt_tokens);
    CHECK(others[i].new_tokens == first[i].new_tokens);
    CHECK(others[i].arrival_s == doctest::Approx(4.0 * first[i].arrival_s).epsilon(1e-4));
    REQUIRE(std::ssize(others[i].prompt_ids) == others[i].prompt_tokens);
    for (const std::int32_t id : others[i].prompt_ids) CHECK((id >= 0 && id < 11));
  }
  draw.seed = 8;
  CHECK(planner::drawn_requests(draw) != first);
}

TEST_CASE("planner/drawn requests: within a context, of one length, and read back from a file") {
  RequestDraw draw = many();
  draw.count = 200;
  draw.most = 1200;
  draw.vocabulary = 50;
  const auto bounded = planner::drawn_requests(draw);
  for (const InferenceRequest& request : bounded)
    CHECK(request.prompt_tokens + request.new_tokens <= 1200);
  CHECK(planner::parse_requests(planner::to_json_lines(bounded), "drawn") == bounded);
  draw.vocabulary = 0;
  const auto lengths = planner::drawn_requests(draw);
  CHECK(planner::parse_requests(planner::to_json_lines(lengths), "drawn") == lengths);

  draw.prompt = {.median = 64, .p99 = 64};
  for (const InferenceRequest& request : planner::drawn_requests(draw))
    CHECK(request.prompt_tokens == 64);

  // Texts and sampling are told, too.
  const auto told = planner::parse_requests(
      R"({"id": "a", "arrival_s": 0.5, "prompt": "x\"y", "new_tokens": 2, "temperature": 0.5, )"
      R"("top_p": 0.25, "seed": 9, "min_p": 0.125, "top_k": 4, "repetition_penalty": 1.5})"
      "\n"
      R"({"id": "b", "arrival_s": 1, "prompt": "z", "new_tokens": 2, "frequency_penalty": -1,)"
      R"( "presence_penalty": 0.5})",
      "told");
  CHECK(told[0].sampling == planner::Sampling{.temperature = 0.5,
                                              .top_p = 0.25,
                                              .seed = 9,
                                              .top_k = 4,
                                              .min_p = 0.125,
                                              .repetition_penalty = 1.5});
  CHECK(told[1].sampling == planner::Sampling{.presence_penalty = 0.5, .frequency_penalty = -1.0});
  CHECK(planner::parse_requests(planner::to_json_lines(told), "again") == told);
}

TEST_CASE("planner/drawn requests: what cannot be drawn is refused by its value") {
  const auto refused = [](void (*change)(RequestDraw&), const char* text) {
    RequestDraw draw = many();
    draw.count = 3;
    change(draw);
    CHECK_THROWS_WITH_AS((void)planner::drawn_requests(draw), doctest::Contains(text), Error);
  };
  refused([](RequestDraw& d) { d.prompt.median = 0.5; }, "median 0.5");
  refused([](RequestDraw& d) { d.output.p99 = 299; }, "99th percentile 299");
  refused([](RequestDraw& d) { d.rate = 0.0; }, "0 a second");
  refused([](RequestDraw& d) { d.rate = std::numeric_limits<double>::quiet_NaN(); }, "a second");
  refused([](RequestDraw& d) { d.rate = 1e-12; }, "expected a higher rate");
  refused([](RequestDraw& d) { d.most = 5; }, "at most 5 together");
}

}  // namespace tandem::test::drawn_requests_test
