// Who computes and who waits, by what devices say.

#include "serve/live_devices.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>

namespace tandem::test::live_devices_test {
namespace {

using exec::DeviceStates;
using exec::Heartbeat;
using exec::Phase;
using serve::LiveDevices;
using std::chrono::milliseconds;

constexpr std::uint64_t kSecond = 1'000'000'000;

TEST_CASE("serve/live: states are those of the heartbeats") {
  LiveDevices live({"desk", "box", "phone", "idle"}, 1.0);
  const auto begin = LiveDevices::Clock::time_point{} + std::chrono::hours(1);
  DeviceStates states(4);
  states[0] = Heartbeat{.phase = Phase::computing, .memory_bytes = 4096};
  states[1] = Heartbeat{.phase = Phase::computing, .subject = 0};
  states[2] = Heartbeat{.phase = Phase::computing, .subject = 2};
  auto json = live.json(states, begin);
  CHECK(json[0]["state"] == "computes");
  CHECK(json[0]["for"].is_null());
  CHECK(json[0]["memory_bytes"] == 4096);
  CHECK(json[0]["busy"].is_null());  // one moment has no rate
  CHECK(json[1]["state"] == "waits");
  CHECK(json[1]["for"] == "desk");
  CHECK(json[1]["memory_bytes"].is_null());
  CHECK(json[2]["for"] == "its disk");
  CHECK(json[3].is_null());
  // Between steps: the master for requests, a worker for the master.
  states[0] = Heartbeat{.phase = Phase::waiting, .subject = 0};
  states[1] = Heartbeat{.phase = Phase::waiting};
  states[2] = Heartbeat{.phase = Phase::loading};
  json = live.json(states, begin + milliseconds(1));
  CHECK(json[0]["state"] == "waits");
  CHECK(json[0]["for"].is_null());
  CHECK(json[1]["for"].is_null());
  CHECK(json[2]["state"] == "prepares");
  // No session, and a device that nobody has heard of.
  json = live.json({}, begin + milliseconds(2));
  REQUIRE(json.size() == 4);
  for (const auto& device : json) CHECK(device.is_null());
  states[1]->subject = 17;
  CHECK(live.json(states, begin + milliseconds(3))[1]["for"].is_null());
}

TEST_CASE("serve/live: shares and rates are of the last seconds, in emulated time") {
  LiveDevices live({"desk"}, 2.0);
  const auto begin = LiveDevices::Clock::time_point{} + std::chrono::hours(1);
  // Computes 0.3 s of each second and 40 tokens in it, for 20 s; then nothing.
  DeviceStates states(1);
  for (int i = 0; i <= 20; ++i) {
    states[0] = Heartbeat{.busy_ns = static_cast<std::uint64_t>(i) * (kSecond * 3 / 10),
                          .rows = static_cast<std::uint64_t>(i) * 40};
    const auto json = live.json(states, begin + std::chrono::seconds(i));
    if (i == 0) continue;
    CHECK(json[0]["busy"].get<double>() == doctest::Approx(0.3));
    CHECK(json[0]["tokens_per_s"].get<double>() == doctest::Approx(80.0));
  }
  for (int i = 21; i <= 26; ++i) {
    const auto json = live.json(states, begin + std::chrono::seconds(i));
    CHECK(json[0]["busy"].get<double>() == doctest::Approx(0.3 * (25 - i > 0 ? 25 - i : 0) / 5));
  }
  // After a long pause nothing is known of the last seconds.
  CHECK(live.json(states, begin + std::chrono::seconds(100))[0]["busy"].is_null());
  // Counters that begin anew are of another session.
  states[0] = Heartbeat{};
  CHECK(live.json(states, begin + std::chrono::seconds(101))[0]["busy"].is_null());
}

}  // namespace
}  // namespace tandem::test::live_devices_test
