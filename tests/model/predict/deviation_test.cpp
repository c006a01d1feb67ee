#include "model/predict/deviation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::deviation_test {
namespace {

using test::contains;

std::size_t at(TaskKind kind) { return static_cast<std::size_t>(kind); }

DeviceProfile older() {
  DeviceProfile profile = nominal_profile(test::device("d"));
  profile.source = "measured";
  return profile;
}

DeviceProfile with_errors() {
  DeviceProfile profile = older();
  profile.drift = 0.02;
  for (KindRate& rate : profile.rate) rate.error = RateError{.fit = 0.03, .spread = 0.04};
  for (FormatRates& rates : profile.formats) {
    for (KindRate& rate : rates.rate) rate.error = RateError{.fit = 0.06, .spread = 0.08};
  }
  return profile;
}

}  // namespace

TEST_CASE("model/deviation: the errors of a rate add up in squares") {
  const DeviceDeviation deviation = deviation_of(with_errors(), test::small_llama());
  CHECK(deviation.drift == 0.02);
  CHECK(deviation.kind[at(TaskKind::ffn_up)] == doctest::Approx(0.05));
  CHECK(deviation.kind[at(TaskKind::attend)] == doctest::Approx(0.05));
  SUBCASE("of weights in several formats the greatest counts") {
    Transformer mixed = test::small_llama();
    mixed.formats.set(WeightMatrix::down, WeightFormat::q8_0);
    CHECK(deviation_of(with_errors(), mixed).kind[at(TaskKind::ffn_up)] == doctest::Approx(0.1));
  }
  SUBCASE("kinds that have another's rate have its errors") {
    CHECK(deviation.kind[at(TaskKind::shortlist)] == deviation.kind[at(TaskKind::sample)]);
    CHECK(deviation.kind[at(TaskKind::fetch)] == deviation.kind[at(TaskKind::embed)]);
  }
  SUBCASE("a disk whose passes were measured has their spread") {
    DeviceProfile profile = with_errors();
    profile.disk_spread = 0.3;
    CHECK(deviation_of(profile, test::small_llama()).kind[at(TaskKind::load)] == 0.3);
  }
}

TEST_CASE("model/deviation: what measured less is assumed to be worse") {
  const auto whole = [](const DeviceProfile& profile) {
    const DeviceDeviation deviation = deviation_of(profile, test::small_llama());
    return std::hypot(deviation.systematic, deviation.drift, deviation.kind[at(TaskKind::ffn_up)]);
  };
  CHECK(whole(with_errors()) < whole(older()));
  CHECK(whole(older()) < whole(nominal_profile(test::device("d"))));
}

TEST_CASE("model/deviation: one sentence says which devices are how rough") {
  const Cluster cluster = test::star(3);
  const DeviceProfile nominal = nominal_profile(test::device("d"));
  const std::string all = deviation_remark(cluster, {with_errors(), with_errors(), with_errors()});
  CHECK(contains(all, "90% intervals, from the errors that profiles measured;"));
  CHECK(contains(all, "links are taken as exact"));
  CHECK(!contains(all, "device '"));
  const std::string mixed = deviation_remark(cluster, {with_errors(), older(), nominal});
  CHECK(contains(mixed, "device 'd0': the errors"));
  CHECK(contains(mixed, "device 'd1': a profile that states no errors"));
  CHECK(contains(mixed, "device 'd2': speeds that the platform states"));
  const Cluster alone("one", {test::device("d0")}, {}, {}, {});
  CHECK(!contains(deviation_remark(alone, {nominal}), "links"));
  const Cluster many = test::star(9);
  std::vector<DeviceProfile> but_one(9, nominal);
  but_one.back() = older();
  CHECK(contains(deviation_remark(many, but_one), "'d3' and 4 more: speeds"));
}

}  // namespace tandem::model::deviation_test
