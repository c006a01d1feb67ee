#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "exec/profile.hpp"
#include "exec/profile_fit.hpp"

namespace tandem::exec {

TEST_CASE("profile/fit: exact measurements give back overhead and rates") {
  // seconds = 3 us + bytes * f(reuse), f(1) = 0.1 ns, f(8) = 0.25 ns
  std::vector<ProfileSample> samples;
  for (const double bytes : {1e4, 1e5, 1e6}) {
    samples.push_back({bytes, 1.0, 3e-6 + bytes * 0.1e-9});
    samples.push_back({bytes, 8.0, 3e-6 + bytes * 0.25e-9});
  }
  const model::KindRate rate = fit_rate(samples);
  CHECK(rate.overhead_s == doctest::Approx(3e-6));
  REQUIRE(rate.points.size() == 2);
  CHECK(rate.points[0].reuse == 1.0);
  CHECK(rate.points[0].seconds_per_byte == doctest::Approx(0.1e-9));
  CHECK(rate.points[1].reuse == 8.0);
  CHECK(rate.points[1].seconds_per_byte == doctest::Approx(0.25e-9));
}

TEST_CASE("profile/fit: sizes that do not tell overhead from bytes leave it at 0") {
  SUBCASE("one size: 1 us for 1e4 bytes is 0.1 ns a byte") {
    const std::vector<ProfileSample> one{{1e4, 1.0, 1e-6}};
    const model::KindRate rate = fit_rate(one);
    CHECK(rate.overhead_s == 0.0);
    CHECK(rate.points[0].seconds_per_byte == doctest::Approx(1e-10));
  }
  SUBCASE("twice the bytes for more than twice the time: no negative overhead") {
    const std::vector<ProfileSample> two{{1e4, 1.0, 1e-6}, {2e4, 1.0, 3e-6}};
    const model::KindRate rate = fit_rate(two);
    CHECK(rate.overhead_s == 0.0);
    CHECK(rate.points[0].seconds_per_byte > 1e-10);
    CHECK(rate.points[0].seconds_per_byte < 1.5e-10);
  }
  SUBCASE("bytes that seem free keep a positive rate") {
    const std::vector<ProfileSample> noise{{1e4, 1.0, 2e-6}, {2e4, 1.0, 1e-6}};
    CHECK(fit_rate(noise).points[0].seconds_per_byte > 0.0);
  }
}

TEST_CASE("profile/fit: measurements of nothing are no rate") {
  CHECK_THROWS_AS(fit_rate({}), std::logic_error);
  const std::vector<ProfileSample> empty{{0.0, 1.0, 1e-6}, {10.0, 1.0, 0.0}};
  CHECK_THROWS_AS(fit_rate(empty), std::logic_error);
}

TEST_CASE("profile: every kind gets positive rates in order, and JSON keeps them") {
  model::Transformer t;
  t.name = "tiny";
  t.layers = 2;
  t.hidden = 64;
  t.heads = 4;
  t.kv_heads = 2;
  t.head_dim = 16;
  t.intermediate = 96;
  t.vocab = 101;
  t.max_context = 64;
  for (const int threads : {1, 2}) {
    CAPTURE(threads);
    const model::DeviceProfile profile = measure_profile(
        t, {.threads = threads, .seconds = 0.05, .stream_bytes = 1e5, .rows = {1, 3, 16}});
    CHECK(profile.source.find(threads == 1 ? "1 thread, CPU time" : "2 threads, wall time") !=
          std::string::npos);
    CHECK(profile.program_bytes > 2e6);  // code, and 1.6 MB of a session
    for (int k = 0; k < model::kTaskKinds; ++k) {
      const auto kind = static_cast<model::TaskKind>(k);
      if (kind == model::TaskKind::fetch || kind == model::TaskKind::load ||
          kind == model::TaskKind::release) {
        continue;
      }
      CAPTURE(to_string(kind));
      const model::KindRate& rate = profile.rate[static_cast<std::size_t>(k)];
      CHECK(rate.overhead_s >= 0.0);
      REQUIRE(!rate.points.empty());
      if (kind == model::TaskKind::transfer) continue;
      CHECK(std::ranges::all_of(rate.points, [](const model::RatePoint& p) {
        return p.seconds_per_byte > 0.0 && p.reuse > 0.0;
      }));
    }
    const auto& up = profile.rate[static_cast<std::size_t>(model::TaskKind::ffn_up)].points;
    REQUIRE(up.size() == 3);
    CHECK(up[2].reuse == 16.0);
    CHECK(model::parse_profile_json(model::to_json(profile), "profile") == profile);
  }
  CHECK_THROWS_AS(measure_profile(t, {.threads = 0}), std::logic_error);
}

}  // namespace tandem::exec
