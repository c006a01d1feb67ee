#include <doctest/doctest.h>

#include <limits>

#include "model/base/error.hpp"
#include "model/report/comparison.hpp"

namespace tandem::test::comparison_command_test {
namespace {

using tandem::model::Comparison;
using tandem::model::Deviation;
using tandem::model::Result;
using tandem::model::ResultOrigin;
using tandem::model::TaskKind;

Result result(ResultOrigin origin, const std::vector<double>& token_times) {
  Result r;
  r.origin = origin;
  r.plan.sha256 = std::string(64, 'a');
  r.metrics.ttft_s = token_times.empty() ? 0.0 : token_times.front();
  r.metrics.token_times_s = token_times;
  return r;
}

const Deviation& row(const Comparison& comparison, const std::string& scope,
                     const std::string& name, const std::string& metric) {
  for (const Deviation& candidate : comparison.rows) {
    if (candidate.scope == scope && candidate.name == name && candidate.metric == metric)
      return candidate;
  }
  FAIL("no row " << scope << ' ' << name << ' ' << metric);
  return comparison.rows.front();
}

Deviation pair(std::optional<double> predicted, std::optional<double> measured) {
  return {"run", "", "ttft", "s", predicted, measured};
}

// A step for each request: its whole prompt, and then a step for each further token.
void add_request(Result& result, const std::string& id, std::int32_t prompt, std::int32_t tokens) {
  const auto sequence = static_cast<std::int32_t>(result.requests.size());
  result.requests.push_back({.id = id});
  for (std::int32_t t = 0; t < tokens; ++t) {
    tandem::model::Segment segment{.sequence = sequence, .past = t > 0 ? prompt + t - 1 : 0};
    segment.rows = t > 0 ? 1 : prompt;
    segment.sampled = 1;
    result.schedule.push_back({.batch = {.segments = {segment}, .cache = {}}});
  }
}

}  // namespace

TEST_CASE("model/comparison: a deviation is predicted minus measured, in percent of measured") {
  SUBCASE("9 against 10: -1, -10%") {
    CHECK(pair(9.0, 10.0).absolute() == doctest::Approx(-1.0));
    CHECK(pair(9.0, 10.0).percent() == doctest::Approx(-10.0));
  }
  SUBCASE("0 against 0: 0, 0%") { CHECK(pair(0.0, 0.0).percent() == 0.0); }
  SUBCASE("1 against 0: 1, no percentage") {
    CHECK(pair(1.0, 0.0).absolute() == 1.0);
    CHECK_FALSE(pair(1.0, 0.0).percent());
  }
  SUBCASE("one side absent or not a number: nothing") {
    CHECK_FALSE(pair(std::nullopt, 1.0).absolute());
    CHECK_FALSE(pair(1.0, std::nullopt).percent());
    CHECK_FALSE(pair(std::numeric_limits<double>::quiet_NaN(), 1.0).absolute());
    CHECK_FALSE(pair(1.0, std::numeric_limits<double>::infinity()).percent());
  }
}

TEST_CASE("model/comparison: token latencies are gaps, the first token has its TTFT") {
  const Comparison c =
      compare(result(ResultOrigin::predicted, {1.0, 2.0, 3.0, 4.0}), result(ResultOrigin::measured, {2.0, 3.0, 4.0, 7.0}));
  SUBCASE("mean: (1 + 1 + 1) / 3 = 1 against (1 + 1 + 3) / 3 = 5/3") {
    CHECK(row(c, "run", "", "token_latency_mean").predicted == doctest::Approx(1.0));
    CHECK(row(c, "run", "", "token_latency_mean").measured == doctest::Approx(5.0 / 3.0));
  }
  SUBCASE("median: 1 against 1 = 0%") {
    CHECK(row(c, "run", "", "token_latency_p50").percent() == doctest::Approx(0.0));
  }
  SUBCASE("token 0: 1 against 2 = -50%") {
    CHECK(row(c, "token", "0", "latency").percent() == doctest::Approx(-50.0));
  }
  SUBCASE("worst token: number 3, 1 against 3") {
    REQUIRE(c.worst_token);
    CHECK(*c.worst_token == 3);
    CHECK(row(c, "run", "", "token_latency_worst").measured == doctest::Approx(3.0));
  }
  SUBCASE("worst percentage: TTFT 50%, mean 40%, median 0% = 50%") {
    CHECK(c.worst_percent == doctest::Approx(50.0));
  }
}

TEST_CASE("model/comparison: what only one result has, has one side") {
  SUBCASE("3 tokens against 2") {
    const Comparison c = compare(result(ResultOrigin::predicted, {1, 2, 3}), result(ResultOrigin::measured, {1, 2}));
    CHECK(row(c, "token", "2", "latency").predicted == doctest::Approx(1.0));
    CHECK_FALSE(row(c, "token", "2", "latency").measured);
  }
  SUBCASE("a single token: no latency, no worst token") {
    const Comparison c = compare(result(ResultOrigin::predicted, {1}), result(ResultOrigin::measured, {1}));
    CHECK_FALSE(row(c, "run", "", "token_latency_mean").predicted);
    CHECK_FALSE(c.worst_token);
    CHECK(c.worst_percent == 0.0);
  }
  SUBCASE("a device and a task kind of the measurement only") {
    Result measured = result(ResultOrigin::measured, {1, 2});
    measured.devices.emplace_back().name = "desk";
    measured.devices[0].bytes_sent = 7.0;
    measured.task_kinds.push_back({"desk", TaskKind::attend, {.count = 4, .total_s = 2.0}});
    const Comparison c = compare(result(ResultOrigin::predicted, {1, 2}), measured);
    CHECK_FALSE(row(c, "device", "desk", "sent").predicted);
    CHECK(row(c, "device", "desk", "sent").measured == 7.0);
    CHECK(row(c, "task", "desk/attend", "mean").measured == 0.5);  // 2 s / 4
  }
}

TEST_CASE("model/comparison: only a prediction and a measurement of one plan compare") {
  Result other = result(ResultOrigin::measured, {1});
  other.plan.sha256 = std::string(64, 'b');
  CHECK_THROWS_AS((void)compare(result(ResultOrigin::predicted, {1}), other), tandem::Error);
  CHECK_THROWS_AS((void)compare(result(ResultOrigin::measured, {1}), result(ResultOrigin::measured, {1})), tandem::Error);
  CHECK_THROWS_AS((void)compare(result(ResultOrigin::predicted, {1}), result(ResultOrigin::predicted, {1})), tandem::Error);
}

TEST_CASE("model/comparison: CSV leaves absent values empty and quotes names with commas") {
  Comparison c;
  c.rows.push_back({"device", "a,\"b\"", "sent", "bytes", 3.0, std::nullopt});
  CHECK(to_csv(c) ==
        "scope,name,metric,unit,predicted,measured,absolute,percent\n"
        "device,\"a,\"\"b\"\"\",sent,bytes,3,,,\n");
}

TEST_CASE("model/comparison: results of other lengths are told of") {
  using tandem::model::unlike_lengths;
  Result predicted = result(ResultOrigin::predicted, {1.0, 2.0, 3.0});
  Result measured = result(ResultOrigin::measured, {1.0, 2.0, 3.0});
  CHECK(unlike_lengths(predicted, measured).empty());
  measured.environment["prompt_tokens"] = "19";
  CHECK(unlike_lengths(predicted, measured).empty());  // of one it is not known
  predicted.environment["prompt_tokens"] = "19";
  CHECK(unlike_lengths(predicted, measured).empty());
  predicted.environment["prompt_tokens"] = "64";
  CHECK(unlike_lengths(predicted, measured)
            .starts_with("a prompt of 64 tokens was predicted, one of 19 measured: bytes"));
  measured.metrics.token_times_s.pop_back();
  CHECK(unlike_lengths(predicted, measured)
            .starts_with("a prompt of 64 tokens was predicted, one of 19 measured; 3 new tokens "
                         "were predicted, 2 measured: "));
}

TEST_CASE("model/comparison: many requests that differ are reported") {
  using tandem::model::unlike_lengths;
  const auto of = [](std::int32_t prompt, std::int32_t tokens) {
    Result made = result(ResultOrigin::predicted, {1.0});
    add_request(made, "a", 5, 2);
    add_request(made, "b", prompt, tokens);
    return made;
  };
  CHECK(unlike_lengths(of(7, 3), of(7, 3)).empty());
  CHECK(unlike_lengths(of(7, 3), of(8, 3))
            .starts_with("request 'b': a prompt of 7 tokens was predicted, one of 8 measured;"));
  CHECK(unlike_lengths(of(7, 3), of(7, 2))
            .starts_with("request 'b': 3 new tokens were predicted, 2 measured;"));
  Result one = result(ResultOrigin::measured, {1.0});
  add_request(one, "request", 5, 2);
  CHECK(unlike_lengths(of(7, 3), one).starts_with("request 'a' was predicted, but not measured;"));
  CHECK(unlike_lengths(one, of(7, 3)).starts_with("request 'request' was predicted, but not"));
  Result more = of(7, 3);
  add_request(more, "c", 1, 1);
  CHECK(unlike_lengths(of(7, 3), more).starts_with("request 'c' was measured, but not predicted;"));
  more.schedule.back().batch.segments.front().sequence = 99;  // of a file that was edited
  CHECK(unlike_lengths(more, more).empty());
}

TEST_CASE("model/comparison: results of other weights say so, where both are known") {
  using tandem::model::unlike_weights;
  Result predicted = result(ResultOrigin::predicted, {1.0});
  Result measured = result(ResultOrigin::measured, {1.0});
  CHECK(unlike_weights(predicted, measured).empty());
  measured.weights_sha256 = std::string(64, 'a');
  CHECK(unlike_weights(predicted, measured).empty());
  predicted.weights_sha256 = std::string(64, 'a');
  CHECK(unlike_weights(predicted, measured).empty());
  predicted.weights_sha256 = std::string(63, 'a') + 'b';  // as far as the text shows, equal
  CHECK(unlike_weights(predicted, measured).starts_with("results are of different weights: "));
}

}  // namespace tandem::test::comparison_command_test
