// The share of a device that may be used: its values and profiles within it.

#include "model/predict/device_share.hpp"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "model/base/error.hpp"
#include "tests/model/model_fixtures.hpp"

namespace tandem::model::test::device_share_test {
namespace {

DeviceProfile measured(int threads) {
  Device device = test::device("d");
  device.flop_rate = device.flop_rate * (static_cast<double>(threads) / 4.0);
  DeviceProfile profile = nominal_profile(device);
  profile.source = "measured";
  profile.threads = threads;
  return profile;
}

double product_seconds(const DeviceProfile& profile) {
  return profile.rate_of(TaskKind::ffn_up, WeightFormat::f32)->points.back().seconds_per_byte;
}

}  // namespace

TEST_CASE("model/device share: t = max(1, floor(s C)) cores") {
  CHECK(cores_of({.share = 1.0, .cores = 8}) == 8);
  CHECK(cores_of({.share = 0.5, .cores = 8}) == 4);
  CHECK(cores_of({.share = 0.99, .cores = 8}) == 7);
  CHECK(cores_of({.share = 0.01, .cores = 8}) == 1);
  CHECK(cores_of({.share = 0.5, .cores = 1}) == 1);
  CHECK(cores_of({.share = 0.29, .cores = 100}) == 29);  // 0.29 * 100 is less than 29
  for (int percent = 1; percent <= 100; ++percent) {
    CAPTURE(percent);
    CHECK(cores_of({.share = percent / 100.0, .cores = 100}) == percent);
  }
}

TEST_CASE("model/device share: memory by the share, rates by the cores") {
  const Device whole = test::device("d");  // 4 cores, 50 Gf, 20 GB/s, 8 GB, disk 500 MB/s
  CHECK(with_share(whole, {.share = 1.0, .cores = 4}) == whole);
  SUBCASE("0.6 of 4 cores: 2 cores, half of the rates, 4.8 GB") {
    const Device part = with_share(whole, {.share = 0.6, .cores = 4});
    CHECK(part.cores == 2);
    CHECK(part.memory.value() == doctest::Approx(4.8e9));
    CHECK(part.flop_rate.value() == doctest::Approx(25e9));
    CHECK(part.memory_bandwidth.value() == doctest::Approx(10e9));
    CHECK(part.disk_bandwidth == whole.disk_bandwidth);
    CHECK(part.slowdown == 1.0);
  }
  SUBCASE("0.9 of one core: memory alone") {
    Device one = whole;
    one.cores = 1;
    const Device part = with_share(one, {.share = 0.9, .cores = 1});
    CHECK(part.memory.value() == doctest::Approx(7.2e9));
    CHECK(part.flop_rate == one.flop_rate);
  }
  SUBCASE("an emulated device is slowed down: 2.5 by 4 / 2 to 5") {
    Device emulated = whole;
    emulated.slowdown = 2.5;
    CHECK(with_share(emulated, {.share = 0.5, .cores = 4}).slowdown == doctest::Approx(5.0));
  }
}

TEST_CASE("model/device share: a profile of at most as many threads, else a slower one of more") {
  const std::vector<DeviceProfile> all{measured(1), measured(2), measured(4)};
  CHECK(with_share(all, {.share = 0.5, .cores = 4}) == all[1]);
  CHECK(with_share(all, {.share = 1.0, .cores = 4}) == all[2]);
  CHECK(with_share(all, {.share = 0.25, .cores = 4}) == all[0]);
  SUBCASE("3 of 4 threads: 2, which were measured; without these, 4 / 3 times as slow as 4") {
    CHECK(with_share(all, {.share = 0.75, .cores = 4}) == all[1]);
    const DeviceProfile three = with_share(std::span(&all[2], 1), {.share = 0.75, .cores = 4});
    CHECK(three.threads == 3);
    CHECK(product_seconds(three) == doctest::Approx(4.0 / 3.0 * product_seconds(all[2])));
  }
  SUBCASE("8 threads of a machine with 16 cores, of which 4 at most were measured") {
    CHECK(with_share(all, {.share = 0.5, .cores = 16}) == all[2]);
  }
  SUBCASE("a profile that does not state its threads is of all cores") {
    std::vector<DeviceProfile> unknown{measured(4)};
    unknown.front().threads = 0;
    const DeviceProfile half = with_share(unknown, {.share = 0.5, .cores = 4});
    CHECK(half.threads == 2);
    CHECK(product_seconds(half) == doctest::Approx(2.0 * product_seconds(unknown.front())));
  }
  SUBCASE("property: a larger share is never slower") {
    double before = 1e9;
    for (int percent = 1; percent <= 100; ++percent) {
      CAPTURE(percent);
      const double now = product_seconds(with_share(all, {.share = percent / 100.0, .cores = 4}));
      CHECK(now <= before);
      before = now;
    }
  }
}

TEST_CASE("model/device share: what is no share is refused, with its value") {
  CHECK(parse_share("0.5", "x") == 0.5);
  CHECK(parse_share("1", "x") == 1.0);
  for (const char* const text : {"0", "-0.5", "1.01", "50%", "", "nan", "half", "0.5 "}) {
    CAPTURE(text);
    const std::string error = error_of([&] { return parse_share(text, "host laptop"); });
    CHECK(error.starts_with("host laptop: '" + std::string(text) + "'"));
    CHECK(contains(error, "above 0 and at most 1"));
  }
}

}  // namespace tandem::model::test::device_share_test
