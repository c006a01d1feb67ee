#include "model/report/comparability.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "model/base/error.hpp"
#include "model/report/comparison.hpp"
#include "tests/model/comparison_fixtures.hpp"
#include "tests/model/model_fixtures.hpp"

namespace tandem::test::comparability_test {
namespace {

using model::check_comparable;
using model::ComparedResult;
using model::request_lengths;
using model::Result;
using model::ResultOrigin;
using model::unlike_lengths;
using model::unlike_plans;
using model::unlike_settings;
using model::unlike_weights;
using model::test::contains;
using model::test::error_of;

ComparedResult predicted(const std::vector<double>& token_times) {
  return {"predicted", result_of(ResultOrigin::predicted, token_times)};
}
ComparedResult measured(const std::vector<double>& token_times,
                        const std::string& label = "measured") {
  return {label, result_of(ResultOrigin::measured, token_times)};
}

// A step for each request: its whole prompt, and then a step for each further token.
void add_request(Result& result, const std::string& id, std::int32_t prompt, std::int32_t tokens) {
  const auto sequence = static_cast<std::int32_t>(result.requests.size());
  result.requests.push_back({.id = id});
  for (std::int32_t t = 0; t < tokens; ++t) {
    model::Segment segment{.sequence = sequence, .past = t > 0 ? prompt + t - 1 : 0};
    segment.rows = t > 0 ? 1 : prompt;
    segment.sampled = 1;
    result.schedule.push_back({.batch = {.segments = {segment}, .cache = {}}});
  }
}

std::string fault(const std::vector<ComparedResult>& results, std::size_t reference) {
  return error_of([&] { check_comparable(results, reference); });
}

bool any_has(const std::vector<std::string>& lines, const std::string& word) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return contains(line, word); });
}

}  // namespace

TEST_CASE("model/comparability: all results are of one plan, whatever their kinds") {
  CHECK(fault({predicted({1}), predicted({1}), measured({1}), measured({1})}, 2).empty());
  for (std::size_t reference = 0; reference < 3; ++reference) {
    CAPTURE(reference);
    std::vector<ComparedResult> results{predicted({1}), measured({1}),
                                        measured({1}, "measured (b)")};
    results[2].result.plan.sha256 = std::string(64, 'b');
    CHECK(contains(fault(results, reference), "results are of different plans: sha256 aaaa"));
    CHECK(contains(fault(results, reference), "was measured (b); simulate and run the same plan"));
  }
}

TEST_CASE("model/comparability: several plans are compared among results of one kind, by ratio") {
  for (const bool runs : {false, true}) {
    CAPTURE(runs);
    std::vector<ComparedResult> results{runs ? measured({1, 3}) : predicted({1, 3}),
                                        runs ? measured({2, 4}) : predicted({2, 4})};
    CHECK(unlike_plans(results).empty());
    results[1].label = "other";
    results[1].result.plan = {
        .sha256 = std::string(64, 'b'), .strategy = "galaxy", .model = "m", .platform = "p"};
    results[1].result.environment["chunk"] = "5";
    CHECK(fault(results, 0).empty());
    CHECK(unlike_plans(results).back() == "other: strategy galaxy, m on p, chunk 5");
    const model::Comparison comparison = compare(results, 0);
    CHECK_FALSE(comparison.of_one_plan);
    for (const model::ComparedRow& row : comparison.rows) {
      if (row.scope != "run" || row.metric != "ttft") continue;
      CHECK(comparison.ratio(row, 0) == 1.0);
      CHECK(comparison.ratio(row, 1) == *row.values[1] / *row.values[0]);
    }
  }
}

TEST_CASE("model/comparability: two policies for many requests are not compared") {
  std::vector<ComparedResult> results{predicted({1}), measured({1})};
  results[0].result.environment = {{"policy", "static"}};
  CHECK(fault(results, 1).empty());  // a replayed schedule has no policy
  results[1].result.environment = {{"policy", "continuous"}};
  CHECK(contains(fault(results, 1), "policy static was predicted and continuous was measured"));
  results[1].result.environment = {{"policy", "static"}, {"chunk", "4"}};
  CHECK(contains(fault(results, 1), "chunk none was predicted and 4 was measured"));
}

TEST_CASE("model/comparability: results of other lengths are reported") {
  ComparedResult one = predicted({1.0, 2.0, 3.0});
  ComparedResult other = measured({1.0, 2.0, 3.0});
  CHECK(unlike_lengths(one, other).empty());
  other.result.environment["prompt_tokens"] = "19";
  CHECK(unlike_lengths(one, other).empty());  // of one it is not known
  one.result.environment["prompt_tokens"] = "19";
  CHECK(unlike_lengths(one, other).empty());
  one.result.environment["prompt_tokens"] = "64";
  CHECK(unlike_lengths(one, other)
            .starts_with("a prompt of 64 tokens was predicted, one of 19 measured: bytes"));
  other.result.metrics.token_times_s.pop_back();
  CHECK(unlike_lengths(one, other)
            .starts_with("a prompt of 64 tokens was predicted, one of 19 measured; 3 new tokens "
                         "were predicted, 2 measured: "));
}

TEST_CASE("model/comparability: many requests that differ are reported") {
  const auto of = [](std::int32_t prompt, std::int32_t tokens) {
    ComparedResult made = predicted({1.0});
    add_request(made.result, "a", 5, 2);
    add_request(made.result, "b", prompt, tokens);
    return made;
  };
  const auto run = [&](std::int32_t prompt, std::int32_t tokens) {
    return ComparedResult{"measured", of(prompt, tokens).result};
  };
  CHECK(unlike_lengths(of(7, 3), run(7, 3)).empty());
  CHECK(unlike_lengths(of(7, 3), run(8, 3))
            .starts_with("request 'b': a prompt of 7 tokens was predicted, one of 8 measured;"));
  CHECK(unlike_lengths(of(7, 3), run(7, 2))
            .starts_with("request 'b': 3 new tokens were predicted, 2 measured;"));
  ComparedResult one = measured({1.0});
  add_request(one.result, "request", 5, 2);
  CHECK(unlike_lengths(of(7, 3), one).starts_with("request 'a' was predicted, but not measured;"));
  ComparedResult more = run(7, 3);
  add_request(more.result, "c", 1, 1);
  CHECK(unlike_lengths(of(7, 3), more).starts_with("request 'c' was measured, but not predicted;"));
  more.result.schedule.back().batch.segments.front().sequence = 99;  // of a file that was edited
  CHECK(unlike_lengths(more, more).empty());
  CHECK(request_lengths(of(7, 3).result).at("b").tokens == 3);
}

TEST_CASE("model/comparability: results of other weights say so, where both are known") {
  ComparedResult one = predicted({1.0});
  ComparedResult other = measured({1.0});
  CHECK(unlike_weights(one, other).empty());
  other.result.weights_sha256 = std::string(64, 'a');
  CHECK(unlike_weights(one, other).empty());
  one.result.weights_sha256 = std::string(64, 'a');
  CHECK(unlike_weights(one, other).empty());
  one.result.weights_sha256 = std::string(63, 'a') + 'b';  // as far as the text shows, equal
  CHECK(unlike_weights(one, other).starts_with("results are of different weights: "));
}

TEST_CASE("model/comparability: every setting that differs is named, known or not") {
  std::vector<ComparedResult> runs{measured({1}, "measured (a)"), measured({1}, "measured (b)"),
                                   measured({1}, "measured (c)")};
  for (ComparedResult& one : runs)
    one.result.environment = {{"kernels", "tuned"}, {"threads", "2"}, {"tcp_nodelay", "1"}};
  CHECK(unlike_settings(runs).empty());
  SUBCASE("kernels, threads, and a setting that nothing else reads") {
    for (const auto& setting : {std::pair("kernels", "eigen"), std::pair("threads", "1"),
                                std::pair("tcp_nodelay", "0"), std::pair("new", "x")}) {
      const std::string key = setting.first;
      CAPTURE(key);
      auto changed = runs;
      changed[1].result.environment[key] = setting.second;
      const auto lines = unlike_settings(changed);
      REQUIRE(lines.size() == 1);
      CHECK(lines[0].starts_with("'" + std::string(key) + "' differs: measured (a) has "));
      CHECK(contains(lines[0],
                     "measured (b) has '" + std::string(setting.second) + "', measured (c) has "));
    }
  }
  SUBCASE("what a run counts or clocks is no setting") {
    for (const char* const key : {"drift", "pacing_late_max_s", "announcement_cpu_s"})
      runs[0].result.environment[key] = "0.1";
    CHECK(unlike_settings(runs).empty());
  }
  SUBCASE("a setting of emulation need not be there on devices") {
    runs[1].result.origin = ResultOrigin::measured_emulated;
    runs[1].result.environment["dilation"] = "2.00";
    CHECK(unlike_settings(runs).empty());
    runs[2].result.origin = ResultOrigin::replayed;
    runs[2].result.environment["dilation"] = "1.00";
    CHECK(unlike_settings(runs).empty());  // of another pace
    runs[2].result.environment.erase("dilation");
    runs[2].result.origin = ResultOrigin::measured_emulated;
    CHECK(any_has(unlike_settings(runs),
                  "'dilation' differs: measured (b) has '2.00', measured "
                  "(c) has none"));
  }
  SUBCASE("a prediction's settings are others, but for the program's version") {
    runs[0] = predicted({1});
    runs[0].result.environment = {{"kernels", "x"}, {"network/model", "CM02"}, {"tandem", "1.0"}};
    for (ComparedResult& one : runs)
      if (one.label != "predicted") one.result.environment["tandem"] = "1.1";
    const auto lines = unlike_settings(runs);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0] ==
          "'tandem' differs: predicted has '1.0', measured (b) has '1.1', measured (c) "
          "has '1.1'");
  }
}

TEST_CASE("model/comparability: remarks in results, and profiles of other processors, are shown") {
  std::vector<ComparedResult> results{predicted({1}), measured({1})};
  results[0].result.environment = {{"extrapolated", "the first token is a guess"},
                                   {"profile of desk", "AMD EPYC, family 25, 2 threads"},
                                   {"profile of sofa", "nominal"}};
  results[1].result.environment = {{"processor", "Intel Xeon"}};
  CHECK(unlike_settings(results) ==
        std::vector<std::string>{"predicted: the first token is a guess"});
  results[1].result.origin = ResultOrigin::measured_emulated;
  CHECK(any_has(unlike_settings(results),
                "by a profile of another processor than measured on: "
                "'desk': AMD EPYC"));
  results[1].result.environment["processor"] = "AMD EPYC, family 25";
  CHECK_FALSE(any_has(unlike_settings(results), "another processor"));
  results[1].result.origin = ResultOrigin::replayed;  // takes what the profile says
  results[1].result.environment["processor"] = "Intel Xeon";
  CHECK_FALSE(any_has(unlike_settings(results), "another processor"));
}

TEST_CASE("model/comparability: a run over loopback is remarked on beside a prediction of links") {
  std::vector<ComparedResult> results{predicted({1}), measured({1})};
  Result& run = results[1].result;
  run.devices.resize(2);
  run.environment["transport"] = "TCP, not encrypted";
  CHECK(any_has(unlike_settings(results), "messages were measured over this machine's loopback"));
  run.environment["transport"] = "TCP, TLS 1.3";  // perhaps to other machines
  CHECK_FALSE(any_has(unlike_settings(results), "loopback"));
  run.environment["transport"] = "TCP, not encrypted";
  run.origin = ResultOrigin::measured_testbed;
  CHECK_FALSE(any_has(unlike_settings(results), "loopback"));
  run.origin = ResultOrigin::measured;
  run.devices.resize(1);
  CHECK_FALSE(any_has(unlike_settings(results), "loopback"));
}

}  // namespace tandem::test::comparability_test
