#include "advice/fidelity/deviation_summary.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "advice/fidelity/report_text.hpp"
#include "model/base/csv.hpp"
#include "tests/advice/fidelity/fidelity_fixture.hpp"

namespace tandem::test::deviation_summary_test {

using study::Recording;

TEST_CASE("study/fidelity summary: the deviation is that of the median of the runs") {
  SUBCASE("110 beside 90, 100 and 130: +10%") {
    const Recording one = recording_of("a", 110.0, {130.0, 90.0, 100.0});
    CHECK(*one.quantities[0].percent() == doctest::Approx(10.0));
  }
  SUBCASE("an even number of runs: 90 beside 80 and 120: -10%") {
    const Recording one = recording_of("a", 90.0, {80.0, 120.0});
    CHECK(*one.quantities[0].percent() == doctest::Approx(-10.0));
  }
  SUBCASE("nothing measured, or 0: no deviation") {
    CHECK_FALSE(recording_of("a", 90.0, {}).quantities[0].percent());
    CHECK_FALSE(recording_of("a", 90.0, {0.0}).quantities[0].percent());
    CHECK(study::judged(recording_of("a", 90.0, {}), "ttft") == nullptr);
  }
}

TEST_CASE("study/fidelity summary: deviations of -10, +20, -30 and +40%") {
  const std::vector<Recording> recordings{
      recording_of("a", 90.0, {100.0}), recording_of("b", 120.0, {100.0}),
      recording_of("c", 70.0, {100.0}, 0.06), recording_of("d", 140.0, {100.0}, 0.2)};
  const study::DeviationSpread all = spread_of(study::all_of(recordings), "ttft");
  CHECK(all.count == 4);
  CHECK(all.bias == doctest::Approx(5.0));     // between -10 and +20
  CHECK(all.median == doctest::Approx(25.0));  // between 20 and 30
  CHECK(all.p95 == doctest::Approx(38.5));     // 30 + 0.85 of 10
  CHECK(all.worst == doctest::Approx(40.0));
  CHECK(all.worst_configuration == "d");
  // Those whose drift is below 5%: a and b.
  const study::DeviationSpread counted =
      spread_of(study::counted_of(study::all_of(recordings)), "ttft");
  CHECK(counted.count == 2);
  CHECK(counted.median == doctest::Approx(15.0));
  CHECK(counted.worst_configuration == "b");
  CHECK(std::isnan(spread_of(study::Recordings{}, "ttft").median));
}

TEST_CASE("study/fidelity summary: the drift is of either clock") {
  Recording one = recording_of("a", 1.0, {1.0}, 0.04);
  CHECK(one.counts());
  one.reference.wall_s = {0.04, 0.05, 0.045};
  CHECK(one.reference.drift() == doctest::Approx(0.25));
  CHECK_FALSE(one.counts());
}

TEST_CASE("study/fidelity summary: an interval holds if the median lies in it") {
  std::vector<Recording> recordings;
  for (const double measured : {79.0, 80.0, 100.0, 120.0, 121.0}) {
    recordings.push_back(recording_of("a", 100.0, {measured}));
    recordings.back().quantities[0].interval_90 = {80.0, 120.0};
  }
  recordings.push_back(recording_of("without", 100.0, {100.0}));
  const study::DeviationSpread spread = spread_of(study::all_of(recordings), "ttft");
  CHECK(spread.intervals == 5);
  CHECK(spread.covered == 3);
}

TEST_CASE("study/fidelity summary: Wilson's interval") {
  SUBCASE("8 of 10: 0.4902 to 0.9433") {
    const auto [low, high] = study::wilson_interval(8, 10);
    CHECK(low == doctest::Approx(0.4901625).epsilon(1e-5));
    CHECK(high == doctest::Approx(0.9433178).epsilon(1e-5));
  }
  SUBCASE("0 of 10: 0 to z^2 / (10 + z^2) = 0.2775") {
    const auto [low, high] = study::wilson_interval(0, 10);
    CHECK(low == doctest::Approx(0.0));
    CHECK(high == doctest::Approx(3.841459 / 13.841459).epsilon(1e-5));
  }
  CHECK_THROWS_AS(static_cast<void>(study::wilson_interval(0, 0)), std::logic_error);
}

TEST_CASE("study/fidelity summary: memory is that of the device which deviates most") {
  Recording one = recording_of("a", 1.0, {1.0});
  for (const auto& [name, predicted] : {std::pair("d1", 102.0), {"d2", 93.0}, {"d3", 106.0}})
    one.quantities.push_back({"device", name, "memory_total", "bytes", predicted, {}, {}, {100.0}});
  REQUIRE(study::judged(one, "memory") != nullptr);
  CHECK(study::judged(one, "memory")->name == "d2");
}

TEST_CASE(
    "study/fidelity summary: kinds by their part of the difference, long runs weigh no more") {
  Recording one = recording_of("a", 1.0, {1.0});
  one.quantities.push_back(part_of("kind", "norm", 2.0, 1.0));    // 1 of 10
  one.quantities.push_back(part_of("kind", "attend", 6.0, 9.0));  // 3 of 10
  Recording longer = recording_of("b", 1.0, {1.0});
  longer.quantities.push_back(part_of("kind", "norm", 400.0, 200.0));    // 2 of 10
  longer.quantities.push_back(part_of("kind", "attend", 800.0, 800.0));  // nothing
  const std::vector<Recording> both{one, longer};
  const auto parts = study::spreads_by_part(study::all_of(both), "kind");
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].weight + parts[1].weight == doctest::Approx(1.0));
  for (const study::PartSpread& part : parts) CHECK(part.weight == doctest::Approx(0.5));
  CHECK(study::worst_kind(one) == "attend");
  CHECK(study::worst_kind(longer) == "norm");
  CHECK(study::worst_kind(recording_of("c", 1.0, {1.0})).empty());
}

TEST_CASE("study/fidelity summary: the table has a row a metric, numbers as they are") {
  Recording one = recording_of("a", 0.11, {0.09, 0.1, 0.13}, 0.1);
  one.quantities[0].interval_90 = {0.08, 0.2};
  one.quantities[0].predicted_after = 0.12;
  const model::Csv csv = model::parse_csv(study::fidelity_csv({one}), "fidelity.csv");
  REQUIRE(csv.rows.size() == 1);
  CHECK(csv.at(0, "configuration") == "a");
  CHECK(csv.at(0, "strategy") == "tensor");
  CHECK(csv.at(0, "family").empty());
  CHECK(csv.at(0, "metric") == "ttft");
  CHECK(csv.at(0, "predicted") == "0.11");
  CHECK(csv.at(0, "predicted_after") == "0.12");
  CHECK(csv.at(0, "measured") == "0.1");
  CHECK(csv.at(0, "measured_min") == "0.09");
  CHECK(csv.at(0, "measured_max") == "0.13");
  CHECK(csv.at(0, "runs") == "3");
  CHECK(std::stod(csv.at(0, "percent")) == doctest::Approx(10.0));
  CHECK(csv.at(0, "interval_high") == "0.2");
  CHECK(csv.at(0, "counts") == "0");
  std::ostringstream out;
  study::print_fidelity({one}, out);
  CHECK(out.str().find("10.0%") != std::string::npos);
  CHECK(out.str().find("1 of 1 (21 to 100%)") != std::string::npos);
  std::ostringstream nothing;
  study::print_fidelity({}, nothing);
  CHECK(nothing.str().empty());
}

}  // namespace tandem::test::deviation_summary_test
