#include "model/predict/device_profile.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::device_profile_test {

using nlohmann::json;
using test::contains;
using test::error_of;

namespace {

DeviceProfile measured() {
  DeviceProfile profile = nominal_profile(test::device("d"));
  profile.source = "profile of \"home\"";
  profile.kernels = MeasuredKernels{
      .generation = 3, .instruction_sets = "SSE4 for floats", .processor = "a \"processor\""};
  profile.program_bytes = 12345678.0;
  profile.disk_bandwidth = BytesPerSecond{1e9 / 7.0};
  profile.inlined = InlineRates{.send = {3e-6, {{1, 1e-10}}},
                                .transfer = {9e-6, {{1, 2e-10}}},
                                .receive = {5e-6, {{1, 3e-10 / 7.0}}}};
  for (std::size_t k = 0; k < profile.rate.size(); ++k) {
    if (profile.rate[k].points.empty()) continue;
    profile.rate[k] = {1e-6 / 3.0, {{1, 1e-10 / 7.0}, {16, 2e-10}, {512, 3e-9}}};
  }
  return profile;
}

// The message for measured()'s JSON after `change`.
template <class Change>
std::string message(Change change) {
  json text = json::parse(to_json(measured()));
  change(text);
  return error_of([&] { return parse_profile_json(text.dump(), "p.json"); });
}

}  // namespace

TEST_CASE("model/device_profile: JSON reads back equal, to the last bit") {
  CHECK(parse_profile_json(to_json(measured()), "p") == measured());
  const DeviceProfile nominal = nominal_profile(test::device("d"));
  CHECK(parse_profile_json(to_json(nominal), "p") == nominal);
}

TEST_CASE("model/device_profile: errors are kept, and a profile without any is read") {
  const DeviceProfile older = measured();
  CHECK(!contains(to_json(older), "error"));
  CHECK(!contains(to_json(older), "drift"));
  CHECK(!contains(to_json(older), "disk_spread"));
  DeviceProfile with_errors = older;
  with_errors.drift = 0.0321;
  with_errors.disk_spread = 0.25;
  with_errors.rate[0].error = RateError{.fit = 0.05, .spread = 0.0};
  with_errors.formats[0].rate[static_cast<std::size_t>(TaskKind::ffn_up)].error =
      RateError{.fit = 0.0, .spread = 1.0 / 3.0};
  with_errors.inlined->send.error = RateError{.fit = 0.1, .spread = 0.2};
  KindRate& product = with_errors.rate[static_cast<std::size_t>(TaskKind::ffn_up)];
  product.row_s = 1e-7;
  CHECK(parse_profile_json(to_json(with_errors), "p") == with_errors);
  CHECK(slowed(with_errors, 2.0).rate[static_cast<std::size_t>(TaskKind::ffn_up)].row_s == 2e-7);
  // Of a machine that is slower, they are as great a part.
  CHECK(slowed(with_errors, 2.0).rate[0].error == with_errors.rate[0].error);
  CHECK(slowed(with_errors, 2.0).drift == with_errors.drift);
}

TEST_CASE("model/device_profile: an error that is none is one error") {
  CHECK(contains(message([](json& p) { p["drift"] = -0.1; }), "drift"));
  CHECK(contains(message([](json& p) { p["drift"] = 11.0; }), "drift"));
  CHECK(contains(message([](json& p) { p["disk_spread"] = "no"; }), "disk_spread"));
  CHECK(contains(message([](json& p) { p["rates"]["norm"]["error"] = {{"fit", 0.1}}; }), "spread"));
  CHECK(contains(message([](json& p) {
                   p["rates"]["norm"]["error"] = {{"fit", -1.0}, {"spread", 0.0}};
                 }),
                 "fit"));
  CHECK(contains(message([](json& p) { p["rates"]["norm"]["error"] = 0.1; }), "error"));
  CHECK(contains(message([](json& p) { p["rates"]["norm"]["row_s"] = -1e-9; }), "row_s"));
}

TEST_CASE("model/device_profile: one file has profiles by numbers of threads") {
  std::vector<DeviceProfile> all{measured(), measured()};
  all[0].threads = 1;
  all[1].threads = 8;
  CHECK(parse_profiles_json(to_json(std::span(std::as_const(all))), "p") == all);
  CHECK(parse_profiles_json(to_json(all[1]), "p") == std::vector{all[1]});
  CHECK(with_threads(all, std::nullopt, false, "p") == all[1]);
  CHECK(with_threads(all, std::nullopt, true, "p") == all[0]);
  CHECK(with_threads(all, 8, true, "p") == all[1]);
  CHECK(contains(error_of([&] { return with_threads(all, 2, true, "p.json"); }),
                 "p.json: measured with threads: 1, 8; expected 2"));
  CHECK(slowed(all[1], 2.0).threads == 8);
  CHECK(contains(
      error_of([&] { return parse_profile_json(to_json(std::span(std::as_const(all))), "p"); }),
      "tandem.profile/3"));
}

TEST_CASE("model/device_profile: kernels that nobody told of are none") {
  DeviceProfile untold = measured();
  untold.kernels.reset();
  CHECK(!contains(to_json(untold), "kernels"));
  CHECK(parse_profile_json(to_json(untold), "p") == untold);
  CHECK(untold.measured());
  const DeviceProfile nominal = nominal_profile(test::device("d"));
  CHECK(!nominal.measured());
  CHECK(!nominal.kernels);
  CHECK(slowed(measured(), 2.0).kernels == measured().kernels);
}

TEST_CASE("model/device_profile: a slowed machine computes slower and sends as before") {
  const DeviceProfile profile = measured();
  const DeviceProfile slow = slowed(profile, 3.0);
  for (int k = 0; k < kTaskKinds; ++k) {
    const auto i = static_cast<std::size_t>(k);
    if (static_cast<TaskKind>(k) == TaskKind::transfer) {
      CHECK(slow.rate[i] == profile.rate[i]);
      continue;
    }
    CHECK(slow.rate[i].overhead_s == doctest::Approx(3.0 * profile.rate[i].overhead_s));
    for (std::size_t p = 0; p < profile.rate[i].points.size(); ++p) {
      CHECK(slow.rate[i].points[p].seconds_per_byte ==
            doctest::Approx(3.0 * profile.rate[i].points[p].seconds_per_byte));
      CHECK(slow.rate[i].points[p].intensity == profile.rate[i].points[p].intensity);
    }
  }
  CHECK(slow.inlined->send.overhead_s == doctest::Approx(9e-6));
  CHECK(slow.inlined->receive.points[0].seconds_per_byte == doctest::Approx(9e-10 / 7.0));
  CHECK(slow.inlined->transfer == profile.inlined->transfer);
  CHECK_THROWS_AS((void)slowed(profile, 0.0), std::logic_error);
  CHECK_THROWS_AS((void)slowed(profile, -1.0), std::logic_error);
}

TEST_CASE("model/device_profile: a slowed machine's disk is as fast") {
  CHECK(slowed(measured(), 3.0).disk_bandwidth == measured().disk_bandwidth);
  CHECK(nominal_profile(test::device("d")).disk_bandwidth.value() == 0.0);
}

TEST_CASE("model/device_profile: the disk is the platform's until it is measured") {
  const auto rate = [](double stated, double found, bool emulated) {
    Device device = test::device("d");
    device.disk_bandwidth = BytesPerSecond{stated};
    DeviceProfile profile = measured();
    profile.disk_bandwidth = BytesPerSecond{found};
    return disk_bandwidth(device, profile, emulated).value();
  };
  for (const bool emulated : {false, true}) {
    CAPTURE(emulated);
    CHECK(rate(5e8, 0.0, emulated) == 5e8);
    CHECK(rate(0.0, 3e8, emulated) == 3e8);
    CHECK(rate(0.0, 0.0, emulated) == 0.0);
    CHECK(rate(5e8, 3e8, emulated) == 3e8);
  }
  CHECK(rate(5e8, 2e9, false) == 2e9);
  CHECK(rate(5e8, 2e9, true) == 5e8);  // paced to it
}

TEST_CASE("model/device_profile: every wrong field costs one line that names it") {
  CHECK(message([](json&) {}).empty());
  CHECK(contains(message([](json& j) { j["schema"] = "tandem.profile/2"; }),
                 "p.json: field 'schema' is \"tandem.profile/2\", expected \"tandem.profile/3\""));
  CHECK(contains(message([](json& j) { j.erase("source"); }), "'source' is missing"));
  CHECK(contains(message([](json& j) { j["program_bytes"] = -1; }), "'program_bytes' is -1"));
  CHECK(contains(message([](json& j) { j["disk_bandwidth_Bps"] = -1; }),
                 "'disk_bandwidth_Bps' is -1"));
  CHECK(contains(message([](json& j) { j.erase("disk_bandwidth_Bps"); }),
                 "'disk_bandwidth_Bps' is missing"));
  CHECK(contains(message([](json& j) { j["kernels"] = 1; }), "'kernels' is 1, expected an object"));
  CHECK(contains(message([](json& j) { j["kernels"]["generation"] = 0; }),
                 "'kernels.generation' is 0"));
  CHECK(contains(message([](json& j) { j["kernels"]["generation"] = 1.5; }),
                 "'kernels.generation' is 1.5"));
  CHECK(contains(message([](json& j) { j["kernels"]["processor"] = "a\nb"; }),
                 "'kernels.processor'"));
  CHECK(contains(message([](json& j) { j["kernels"].erase("instruction_sets"); }),
                 "'kernels.instruction_sets' is missing"));
  CHECK(contains(message([](json& j) { j["kernels"]["instruction_sets"] = ""; }),
                 "names of instruction sets"));
  CHECK(contains(message([](json& j) { j["kernels"]["speed"] = 1; }), "unknown field \"speed\""));
  CHECK(contains(message([](json& j) { j["extra"] = 1; }), "unknown field \"extra\""));
  CHECK(contains(message([](json& j) { j["rates"] = 3; }), "'rates' is 3, expected an object"));
  CHECK(
      contains(message([](json& j) { j["rates"].erase("ffn_up"); }), "'rates.ffn_up' is missing"));
  CHECK(contains(message([](json& j) { j["rates"]["dance"] = 1; }), "rates of task kinds only"));
  CHECK(contains(message([](json& j) { j["rates"]["norm"]["overhead_s"] = nullptr; }),
                 "'rates.norm.overhead_s' is null"));
  CHECK(contains(message([](json& j) { j["rates"]["norm"]["points"] = json::array(); }),
                 "'rates.norm.points' is an array of 0, expected at least one point"));
  CHECK(contains(message([](json& j) { j["rates"]["norm"]["points"][1]["reuse"] = 1; }),
                 "'rates.norm.points[1].reuse' is 1, expected a positive number above"));
  CHECK(contains(message([](json& j) { j["rates"]["norm"]["points"][0]["reuse"] = 0; }),
                 "'rates.norm.points[0].reuse' is 0"));
  CHECK(
      contains(message([](json& j) { j["rates"]["norm"]["points"][0]["seconds_per_byte"] = "x"; }),
               "'rates.norm.points[0].seconds_per_byte' is \"x\""));
  CHECK(contains(error_of([] { return parse_profile_json("nonsense", "p.json"); }), "not JSON"));
}

}  // namespace tandem::model::device_profile_test
