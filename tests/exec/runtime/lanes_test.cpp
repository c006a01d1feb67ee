// The lanes of one channel, each with the messages of one of the steps in flight.

#include "exec/runtime/lanes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "model/base/error.hpp"
#include "tests/support/memory_transport.hpp"

namespace tandem::exec::lanes_test {
namespace {

using testing::MemoryNetwork;
using testing::MemoryTransport;

constexpr std::size_t kBytes = 4;

ChannelProgram two_messages(model::DeviceIndex peer) {
  ChannelProgram schedule{.peer = peer, .messages = {}, .slots = 2, .slot_bytes = kBytes};
  for (std::int32_t i = 0; i < 2; ++i)
    schedule.messages.push_back({.task = i, .bytes = kBytes, .slot = i});
  return schedule;
}

void send_all(OutgoingLane& lane, const ChannelProgram& schedule) {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(schedule.messages.size()); ++i) {
    std::ranges::fill(lane.room(i), static_cast<std::byte>(i));
    lane.send(i, Clock::now());
  }
}

// A warm-up has numbers that the run begins again with.
TEST_CASE("exec/lanes: a step's turn comes after the step before it, not after one of its number") {
  for (const bool sends_inline : {true, false}) {
    CAPTURE(sends_inline);
    MemoryNetwork network({.sends_inline = sends_inline});
    MemoryTransport transport(network, 0);
    const ChannelProgram schedule = two_messages(1);
    OutgoingLane even(transport, 1, {});
    OutgoingLane odd(transport, 1, {});
    for (OutgoingLane* lane : {&even, &odd}) {
      lane->declare(2 * static_cast<std::int64_t>(kBytes));
      lane->reserve(schedule);
    }
    even.begin(0, schedule, {});
    send_all(even, schedule);
    even.finish();
    odd.begin(1, schedule, {}, &even);
    send_all(odd, schedule);
    odd.finish();

    even.begin(0, schedule, {}, &odd);
    odd.begin(1, schedule, {}, &even);
    send_all(even, schedule);
    send_all(odd, schedule);
    auto all = std::async(std::launch::async, [&] {
      try {
        even.finish();
        odd.finish();
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    });
    if (all.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      even.cancel("each waits for the other");
      odd.cancel("each waits for the other");
    }
    CHECK(all.get() == "");
    REQUIRE(network.channels[{0, 1}].size() == 8);
    std::vector<std::int32_t> steps;
    for (const MemoryNetwork::Parcel& parcel : network.channels[{0, 1}])
      steps.push_back(parcel.tag.step);
    CHECK(steps == std::vector<std::int32_t>{0, 0, 1, 1, 0, 0, 1, 1});
  }
}

}  // namespace
}  // namespace tandem::exec::lanes_test
