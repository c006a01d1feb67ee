#include "model/report/comparison.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "model/base/error.hpp"
#include "tests/model/comparison_fixtures.hpp"

namespace tandem::test::comparison_test {
namespace {

using model::compare;
using model::ComparedRow;
using model::Comparison;
using model::default_reference;
using model::ResultOrigin;
using model::TaskKind;

constexpr ResultOrigin kPredicted = ResultOrigin::predicted;
constexpr ResultOrigin kMeasured = ResultOrigin::measured;

const ComparedRow& row(const Comparison& comparison, const std::string& scope,
                       const std::string& name, const std::string& metric) {
  for (const ComparedRow& candidate : comparison.rows) {
    if (candidate.scope == scope && candidate.name == name && candidate.metric == metric)
      return candidate;
  }
  FAIL("no row " << scope << ' ' << name << ' ' << metric);
  return comparison.rows.front();
}

// As a user gives a prediction and then a run: the run is the reference.
Comparison of_pair(const model::Result& predicted, const model::Result& run) {
  return compare({{"predicted", predicted}, {"measured", run}}, 1);
}

// One row of two values, the second the reference.
Comparison pair(std::optional<double> predicted, std::optional<double> measured) {
  Comparison comparison;
  comparison.labels = {"predicted", "measured"};
  comparison.origins = {kPredicted, kMeasured};
  comparison.reference = 1;
  comparison.rows = {{"run", "", "ttft", "s", {predicted, measured}}};
  return comparison;
}
std::optional<double> absolute(const Comparison& comparison) {
  return comparison.absolute(comparison.rows.front(), 0);
}
std::optional<double> percent(const Comparison& comparison) {
  return comparison.percent(comparison.rows.front(), 0);
}

}  // namespace

TEST_CASE("model/comparison: a deviation is a value minus the reference, in percent of that") {
  SUBCASE("9 against 10: -1, -10%") {
    CHECK(absolute(pair(9.0, 10.0)) == doctest::Approx(-1.0));
    CHECK(percent(pair(9.0, 10.0)) == doctest::Approx(-10.0));
  }
  SUBCASE("0 against 0: 0, 0%") { CHECK(percent(pair(0.0, 0.0)) == 0.0); }
  SUBCASE("1 against 0: 1, no percentage") {
    CHECK(absolute(pair(1.0, 0.0)) == 1.0);
    CHECK_FALSE(percent(pair(1.0, 0.0)));
  }
  SUBCASE("one side absent or not a number: nothing") {
    CHECK_FALSE(absolute(pair(std::nullopt, 1.0)));
    CHECK_FALSE(percent(pair(1.0, std::nullopt)));
    CHECK_FALSE(absolute(pair(std::numeric_limits<double>::quiet_NaN(), 1.0)));
    CHECK_FALSE(percent(pair(1.0, std::numeric_limits<double>::infinity())));
  }
}

TEST_CASE("model/comparison: token latencies are gaps, the first token has its TTFT") {
  const Comparison c = of_pair(result_of(kPredicted, {1.0, 2.0, 3.0, 4.0}),
                               result_of(kMeasured, {2.0, 3.0, 4.0, 7.0}));
  SUBCASE("mean: (1 + 1 + 1) / 3 = 1 against (1 + 1 + 3) / 3 = 5/3") {
    CHECK(*row(c, "run", "", "token_latency_mean").values[0] == doctest::Approx(1.0));
    CHECK(*row(c, "run", "", "token_latency_mean").values[1] == doctest::Approx(5.0 / 3.0));
  }
  SUBCASE("median: 1 against 1 = 0%") {
    CHECK(c.percent(row(c, "run", "", "token_latency_p50"), 0) == doctest::Approx(0.0));
  }
  SUBCASE("token 0: 1 against 2 = -50%") {
    CHECK(c.percent(row(c, "token", "0", "latency"), 0) == doctest::Approx(-50.0));
  }
  SUBCASE("worst token: number 3, 1 against 3") {
    REQUIRE(c.verdicts[0].worst_token);
    CHECK(*c.verdicts[0].worst_token == 3);
    CHECK(*row(c, "run", "", "token_latency_worst").values[1] == doctest::Approx(3.0));
  }
  SUBCASE("worst percentage: TTFT 50%, mean 40%, median 0% = 50%") {
    CHECK(c.verdicts[0].worst_percent == doctest::Approx(50.0));
    CHECK_FALSE(c.verdicts[1].worst_percent);  // the reference does not deviate from itself
  }
}

TEST_CASE("model/comparison: what only one result has, has one value") {
  SUBCASE("3 tokens against 2") {
    const Comparison c = of_pair(result_of(kPredicted, {1, 2, 3}), result_of(kMeasured, {1, 2}));
    CHECK(*row(c, "token", "2", "latency").values[0] == doctest::Approx(1.0));
    CHECK_FALSE(row(c, "token", "2", "latency").values[1]);
  }
  SUBCASE("a single token: no latency, no worst token") {
    const Comparison c = of_pair(result_of(kPredicted, {1}), result_of(kMeasured, {1}));
    CHECK_FALSE(row(c, "run", "", "token_latency_mean").values[0]);
    CHECK_FALSE(c.verdicts[0].worst_token);
    CHECK(c.verdicts[0].worst_percent == 0.0);
  }
  SUBCASE("a device and a task kind of the measurement only") {
    model::Result measured = result_of(kMeasured, {1, 2});
    measured.devices.emplace_back().name = "desk";
    measured.devices[0].bytes_sent = 7.0;
    measured.task_kinds.push_back({"desk", TaskKind::attend, {.count = 4, .total_s = 2.0}});
    const Comparison c = of_pair(result_of(kPredicted, {1, 2}), measured);
    CHECK_FALSE(row(c, "device", "desk", "sent").values[0]);
    CHECK(row(c, "device", "desk", "sent").values[1] == 7.0);
    CHECK(row(c, "task", "desk/attend", "mean").values[1] == 0.5);  // 2 s / 4
  }
}

TEST_CASE("model/comparison: any number of results deviate from the one that is the reference") {
  const std::vector<model::ComparedResult> results{
      {"predicted", result_of(kPredicted, {1, 2})},
      {"replayed", result_of(ResultOrigin::replayed, {1, 2})},
      {"measured (a)", result_of(kMeasured, {2, 4})},
      {"measured (b)", result_of(kMeasured, {4, 5})}};
  for (std::size_t reference = 0; reference < results.size(); ++reference) {
    CAPTURE(reference);
    const Comparison c = compare(results, reference);
    const ComparedRow& ttft = row(c, "run", "", "ttft");
    CHECK(ttft.values == std::vector<std::optional<double>>{1.0, 1.0, 2.0, 4.0});
    CHECK(c.others().size() == 3);
    for (const std::size_t i : c.others()) {
      CHECK(i != reference);
      CHECK(c.absolute(ttft, i) == doctest::Approx(*ttft.values[i] - *ttft.values[reference]));
      CHECK(c.verdicts[i].worst_percent.has_value());
    }
  }
  CHECK_THROWS_AS((void)compare(results, 4), std::logic_error);
  CHECK(default_reference(results) == 0);
  CHECK(default_reference({results[0], results[2]}) == 1);  // a prediction, then a run
  CHECK(default_reference({results[0], results[1]}) == 1);
  CHECK(default_reference({results[2], results[0]}) == 0);
  CHECK(default_reference({results[2], results[3]}) == 0);
}

TEST_CASE("model/comparison: a deviation between calculated values is none of the prediction") {
  const auto of = [](ResultOrigin one, ResultOrigin reference) {
    model::Result with = result_of(one, {1, 2});
    with.metrics.ready_s = 1.0;
    with.devices.emplace_back().name = "desk";
    for (const TaskKind kind : {TaskKind::attend, TaskKind::transfer, TaskKind::load})
      with.task_kinds.push_back({"desk", kind, {.count = 4, .total_s = 2.0}});
    model::Result base = with;
    base.origin = reference;
    return compare({{"one", with}, {"base", base}}, 1);
  };
  const auto calculated = [](const Comparison& c, const std::string& scope, const std::string& name,
                             const std::string& metric) {
    return c.is_calculated(row(c, scope, name, metric), 0);
  };
  SUBCASE("predicted beside replayed: times are the same sums, memory and bytes are counted") {
    const Comparison c = of(kPredicted, ResultOrigin::replayed);
    CHECK(calculated(c, "run", "", "ttft"));
    CHECK(calculated(c, "run", "", "throughput"));
    CHECK(calculated(c, "token", "1", "latency"));
    CHECK(calculated(c, "device", "desk", "busy_cpu"));
    CHECK(calculated(c, "task", "desk/attend", "total"));
    CHECK_FALSE(calculated(c, "task", "desk/attend", "count"));
    CHECK_FALSE(calculated(c, "device", "desk", "memory_total"));
    CHECK_FALSE(calculated(c, "device", "desk", "sent"));
    CHECK_FALSE(calculated(c, "run", "", "ready"));  // from the command's start, by the clock
  }
  SUBCASE("predicted beside emulated: links and disks are the same sums, computing is measured") {
    const Comparison c = of(kPredicted, ResultOrigin::measured_emulated);
    CHECK_FALSE(calculated(c, "run", "", "ttft"));
    CHECK_FALSE(calculated(c, "device", "desk", "busy_cpu"));
    CHECK(calculated(c, "device", "desk", "busy_channel"));
    CHECK(calculated(c, "device", "desk", "busy_disk"));
    CHECK_FALSE(calculated(c, "task", "desk/attend", "total"));
    CHECK(calculated(c, "task", "desk/transfer", "total"));
    CHECK(calculated(c, "task", "desk/load", "mean"));
  }
  SUBCASE("beside a testbed disks alone are, beside devices nothing is") {
    for (const ResultOrigin origin : {kMeasured, ResultOrigin::measured_testbed}) {
      const Comparison c = of(kPredicted, origin);
      for (const ComparedRow& any : c.rows) {
        const bool is_disk =
            any.metric == "busy_disk" || (any.name == "desk/load" && any.metric != "count");
        CAPTURE(any.name);
        CAPTURE(any.metric);
        CHECK(c.is_calculated(any, 0) == (is_disk && origin != kMeasured));
      }
    }
  }
  SUBCASE("replayed beside measured: one of the two is measured") {
    CHECK_FALSE(calculated(of(ResultOrigin::replayed, kMeasured), "run", "", "ttft"));
  }
}

TEST_CASE("model/comparison: CSV leaves absent values empty and quotes names with commas") {
  Comparison c = pair(3.0, std::nullopt);
  c.rows[0] = {"device", "a,\"b\"", "sent", "bytes", {3.0, std::nullopt}};
  CHECK(to_csv(c) ==
        "scope,name,metric,unit,predicted,measured,absolute,percent,basis\n"
        "device,\"a,\"\"b\"\"\",sent,bytes,3,,,,\n");
}

TEST_CASE("model/comparison: CSV has a column for each result, deviations of all but one") {
  Comparison c = pair(1.0, 2.0);
  c.reference = 0;
  CHECK(to_csv(c) ==
        "scope,name,metric,unit,predicted,measured,absolute measured,percent measured,basis "
        "measured\nrun,,ttft,s,1,2,1,100,measured\n");
  c.labels.emplace_back("replayed");
  c.origins.push_back(ResultOrigin::replayed);
  c.rows[0].values.emplace_back(1.5);
  CHECK(to_csv(c) ==
        "scope,name,metric,unit,predicted,measured,replayed,absolute measured,percent "
        "measured,basis measured,absolute replayed,percent replayed,basis replayed\n"
        "run,,ttft,s,1,2,1.5,1,100,measured,0.5,50,calculated\n");
}

}  // namespace tandem::test::comparison_test
