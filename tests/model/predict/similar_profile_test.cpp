#include "model/predict/similar_profile.hpp"

#include <doctest/doctest.h>

#include <cstddef>

#include "model/predict/cost_model.hpp"
#include "model/predict/deviation.hpp"
#include "tests/model/model_fixtures.hpp"

namespace tandem::model::similar_profile_test {
namespace {

using test::contains;

// Half as fast as its roofline for one row, a quarter for 1000, and an overhead.
ReferenceProcessor reference() {
  ReferenceProcessor of{.name = "old", .stated = test::device("old"), .profile = {}};
  of.profile = nominal_profile(of.stated);
  of.profile.source = "measured";
  const auto slow = [](KindRate& rate) {
    if (rate.points.empty()) return;
    const KindRate nominal = rate;
    rate.points.clear();
    for (const auto& [rows, times] : {std::pair(1.0, 2.0), std::pair(1000.0, 4.0)})
      rate.points.push_back({rows, times * task_seconds(nominal, 1.0, rows)});
    rate.overhead_s = 1e-6;
  };
  for (KindRate& rate : of.profile.rate) slow(rate);
  std::erase_if(of.profile.formats,
                [](const FormatRates& rates) { return rates.format != WeightFormat::q8_0; });
  for (FormatRates& rates : of.profile.formats) {
    for (KindRate& rate : rates.rate) slow(rate);
  }
  return of;
}

Device device(double speed, double memory) {
  Device of = test::device("new");
  of.flop_rate = FlopsPerSecond{speed * of.flop_rate.value()};
  of.memory_bandwidth = BytesPerSecond{memory * of.memory_bandwidth.value()};
  return of;
}

double seconds(const DeviceProfile& profile, double rows, WeightFormat format = {}) {
  const KindRate& rate = *profile.rate_of(TaskKind::ffn_up, format);
  return task_seconds(rate, 1e6, rows) - rate.overhead_s;
}

}  // namespace

TEST_CASE("model/similar_profile: a device is as far from its roofline as the reference") {
  for (const std::pair<double, double>& factors :
       {std::pair(1.0, 1.0), std::pair(4.0, 2.0), std::pair(0.1, 3.0)}) {
    CAPTURE(factors.first);
    CAPTURE(factors.second);
    const Device of = device(factors.first, factors.second);
    const DeviceProfile nominal = nominal_profile(of);
    const DeviceProfile similar = similar_profile(of, reference());
    CHECK(seconds(similar, 1) == doctest::Approx(2.0 * seconds(nominal, 1)));
    CHECK(seconds(similar, 1000) == doctest::Approx(4.0 * seconds(nominal, 1000)));
    CHECK(seconds(similar, 1, WeightFormat::q8_0) ==
          doctest::Approx(2.0 * seconds(nominal, 1, WeightFormat::q8_0)));
    CHECK(similar.rate_of(TaskKind::ffn_up, WeightFormat::f32)->overhead_s == 1e-6);
    // Not measured: nominal.
    CHECK(seconds(similar, 1, WeightFormat::q4_k) == seconds(nominal, 1, WeightFormat::q4_k));
    // A profile like others: the file keeps it, and a cost model takes it.
    CHECK(parse_profile_json(to_json(similar), "p") == similar);
    (void)CostModel(test::small_llama(), {similar});
  }
}

TEST_CASE("model/similar_profile: what a product costs by row is computing, and scaled as such") {
  ReferenceProcessor known = reference();
  known.profile.rate[static_cast<std::size_t>(TaskKind::ffn_up)].row_s = 1e-6;
  const DeviceProfile similar = similar_profile(device(0.25, 1.0), known);
  CHECK(similar.rate_of(TaskKind::ffn_up, WeightFormat::f32)->row_s == doctest::Approx(4e-6));
}

TEST_CASE("model/similar_profile: it is known as a guess, wider than what was measured") {
  const DeviceProfile similar = similar_profile(device(1.0, 1.0), reference());
  CHECK(is_similar(similar));
  CHECK(!is_similar(reference().profile));
  CHECK(similar.threads == 4);
  const Cluster one("one", {test::device("d0")}, {}, {}, {});
  CHECK(contains(deviation_remark(one, {similar}), "a profile of another machine"));
  CHECK(contains(deviation_remark(one, {similar}), "(similar to old)"));
  const DeviceDeviation deviation = deviation_of(similar, test::small_llama());
  CHECK(deviation.drift > 0.2);
  Transformer other = test::small_llama();
  other.formats = WeightFormats(WeightFormat::q4_k);
  constexpr auto kUp = static_cast<std::size_t>(TaskKind::ffn_up);
  CHECK(deviation_of(similar, other).kind[kUp] > deviation.kind[kUp]);
}

}  // namespace tandem::model::similar_profile_test
