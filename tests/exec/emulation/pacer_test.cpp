#include "exec/emulation/pacer.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "exec/emulation/drift.hpp"
#include "model/predict/cost_model.hpp"
#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::pacer_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Time that passes only when the test says so; sleeping may wake late.
class FakeClock final : public LaneClock {
 public:
  TimePoint now() override { return TimePoint(wall); }
  nanoseconds cpu_time() override { return cpu; }
  void sleep_until(TimePoint when) override {
    wall = std::max(wall, when.time_since_epoch()) + wakes_late;
    ++sleeps;
  }
  void work(nanoseconds time) {
    wall += time;
    cpu += time;
  }
  nanoseconds wall{0};
  nanoseconds cpu{0};
  nanoseconds wakes_late{0};
  int sleeps = 0;
};

const model::Batch kBatch{{{.sequence = 0, .past = 0, .rows = 1}}};
const model::Task kTask{};

Pacer::Interval run(Pacer& pacer, FakeClock& clock, nanoseconds time) {
  pacer.begin();
  clock.work(time);
  return pacer.end(kBatch, kTask);
}

TEST_CASE("exec/pacer: a task takes slowdown times its CPU time") {
  SUBCASE("4 * 1 ms and 4 * 2 ms: due after 12 ms, one sleep") {
    FakeClock clock;
    Pacer pacer({.pace = Pace::measured, .slowdown = 4.0}, clock);
    const auto first = run(pacer, clock, milliseconds(1));
    const auto second = run(pacer, clock, milliseconds(2));
    CHECK(first.start.time_since_epoch() == milliseconds(0));
    CHECK(first.end.time_since_epoch() == milliseconds(4));
    CHECK(second.end.time_since_epoch() == milliseconds(12));
    CHECK(clock.sleeps == 0);
    pacer.settle();
    CHECK(clock.wall == milliseconds(12));
    CHECK(clock.sleeps == 1);
  }
  SUBCASE("time lost to other processes is not charged: 4 * 1 ms though it took 3 ms") {
    FakeClock clock;
    Pacer pacer({.pace = Pace::measured, .slowdown = 4.0}, clock);
    pacer.begin();
    clock.work(milliseconds(1));
    clock.wall += milliseconds(2);
    CHECK(pacer.end(kBatch, kTask).end.time_since_epoch() == milliseconds(4));
  }
}

TEST_CASE(
    "exec/pacer: rows from an emulated disk take its time, not that of the real one's calls") {
  const model::Transformer transformer = testing::small_llama();
  model::Device device;
  device.flop_rate = model::FlopsPerSecond{1e9};
  device.memory_bandwidth = model::BytesPerSecond{1e9};
  const model::CostModel costs(transformer, {model::nominal_profile(device)});
  model::Task fetch;
  fetch.kind = model::TaskKind::fetch;
  fetch.rows = {0, 1};
  FakeClock clock;
  Pacer pacer({.pace = Pace::measured,
               .slowdown = 24.0,
               .costs = &costs,
               .disk_rate = 1e3 * 4.0 * static_cast<double>(transformer.hidden)},
              clock);
  pacer.begin();
  clock.work(milliseconds(3));  // in system calls
  CHECK(pacer.end(kBatch, fetch).end.time_since_epoch() == milliseconds(1));
  CHECK(run(pacer, clock, milliseconds(1)).end.time_since_epoch() == milliseconds(25));
}

TEST_CASE("exec/pacer: late wake-ups do not add up") {
  // 100 tasks of 1 ms at slowdown 3, every wake-up 0.5 ms late: 300 ms and the last one's 0.5 ms,
  // where sleeping (k - 1) * elapsed each time would take 350 ms.
  FakeClock clock;
  clock.wakes_late = nanoseconds(500'000);
  Pacer pacer({.pace = Pace::measured, .slowdown = 3.0}, clock);
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(run(pacer, clock, milliseconds(1)));
    pacer.settle();
  }
  CHECK(clock.wall == milliseconds(300) + nanoseconds(500'000));
  CHECK(pacer.mean_late_s() == doctest::Approx(0.0));
}

TEST_CASE("exec/pacer: waiting for an input restarts the schedule") {
  FakeClock clock;
  Pacer pacer({.pace = Pace::measured, .slowdown = 2.0}, clock);
  static_cast<void>(run(pacer, clock, milliseconds(1)));  // due at 2
  SUBCASE("an input that came while the lane was busy costs nothing") {
    pacer.available(LaneClock::TimePoint(milliseconds(1)));
    CHECK(run(pacer, clock, milliseconds(1)).start.time_since_epoch() == milliseconds(2));
  }
  SUBCASE("an input at 10 ms: 10 + 2 * 1 = 12 ms, though the lane woke at 10.3") {
    clock.wall = milliseconds(10) + nanoseconds(300'000);
    pacer.available(LaneClock::TimePoint(milliseconds(10)));
    const auto interval = run(pacer, clock, milliseconds(1));
    CHECK(interval.start.time_since_epoch() == milliseconds(10));
    CHECK(interval.end.time_since_epoch() == milliseconds(12));
  }
}

TEST_CASE("exec/pacer: reports how far it is behind") {
  FakeClock clock;
  Pacer pacer({.pace = Pace::measured, .slowdown = 1.0}, clock);
  static_cast<void>(run(pacer, clock, milliseconds(1)));
  clock.wall += milliseconds(4);
  pacer.settle();  // 4 ms late
  static_cast<void>(run(pacer, clock, milliseconds(1)));
  clock.wall = milliseconds(2);
  pacer.settle();  // in time
  CHECK(pacer.max_late_s() == doctest::Approx(4e-3));
  CHECK(pacer.mean_late_s() == doctest::Approx(2e-3));
}

TEST_CASE("exec/pacer: without emulation spans are wall time and nothing sleeps") {
  FakeClock clock;
  Pacer pacer({}, clock);
  clock.wall = milliseconds(5);
  const auto interval = run(pacer, clock, milliseconds(3));
  pacer.settle();
  CHECK(interval.start.time_since_epoch() == milliseconds(5));
  CHECK(interval.end.time_since_epoch() == milliseconds(8));
  CHECK(clock.sleeps == 0);
  CHECK_FALSE(pacer.emulates());
}

TEST_CASE(
    "exec/pacer: a copy and the message that a computing thread carries take the lane's time") {
  MessageCopy copy{.kind = model::TaskKind::deliver,
                   .size = model::plain_copy(model::Bytes{1000.0}),
                   .computing_thread = true};
  // 2 ms of a message of 1000 bytes to receive.
  const MessageOverhead messages{.send = {.message_s = 9.0},
                                 .receive = {.message_s = 1e-3, .byte_s = 1e-6}};
  SUBCASE("measured: arrival at 10 ms, 4 * (1 + 2) ms") {
    FakeClock clock;
    Pacer pacer({.pace = Pace::measured, .slowdown = 4.0, .messages = &messages}, clock);
    pacer.available(LaneClock::TimePoint(milliseconds(10)));
    pacer.begin();
    clock.work(milliseconds(1));
    const auto interval = pacer.end_copy(copy);
    CHECK(interval.start.time_since_epoch() == milliseconds(10));
    CHECK(interval.end.time_since_epoch() == milliseconds(22));
    CHECK(run(pacer, clock, milliseconds(1)).end.time_since_epoch() == milliseconds(26));
  }
  SUBCASE("measured and dilated: 2.5 * 4 * (1 + 2) ms") {
    FakeClock clock;
    Pacer pacer({.pace = Pace::measured, .slowdown = 4.0, .dilation = 2.5, .messages = &messages},
                clock);
    pacer.begin();
    clock.work(milliseconds(1));
    CHECK(pacer.end_copy(copy).end.time_since_epoch() == milliseconds(30));
  }
  SUBCASE("nominal: what the profile says, 2000 bytes at 1 us and 3 ms of receiving") {
    model::DeviceProfile profile = model::nominal_profile(
        {.flop_rate = model::FlopsPerSecond{1e9}, .memory_bandwidth = model::BytesPerSecond{1e6}});
    const model::KindRate none{0.0, {{1.0, 0.0}}};
    profile.inlined =
        model::InlineRates{.send = none, .transfer = none, .receive = {3e-3, {{1.0, 0.0}}}};
    const model::CostModel costs({}, {profile});
    FakeClock clock;
    Pacer pacer({.pace = Pace::nominal, .costs = &costs}, clock);
    pacer.begin();
    clock.work(milliseconds(1));
    CHECK(pacer.end_copy(copy).end.time_since_epoch() == milliseconds(5));
    copy.computing_thread = false;
    CHECK(pacer.end_copy(copy).end.time_since_epoch() == milliseconds(7));
    Pacer dilated({.pace = Pace::nominal, .costs = &costs, .dilation = 1.5}, clock);
    const auto interval = dilated.end_copy(copy);
    CHECK(interval.end - interval.start == milliseconds(3));
  }
  SUBCASE("real: from when the message was there to now") {
    FakeClock clock;
    Pacer pacer({}, clock);
    clock.wall = milliseconds(5);
    pacer.begin();
    clock.work(milliseconds(1));
    CHECK(pacer.end_copy(copy).start.time_since_epoch() == milliseconds(5));
    copy.since = LaneClock::TimePoint(milliseconds(3));
    const auto interval = pacer.end_copy(copy);
    CHECK(interval.start.time_since_epoch() == milliseconds(3));
    CHECK(interval.end.time_since_epoch() == milliseconds(6));
  }
}

TEST_CASE("exec/drift: is a ratio of medians above 0") {
  DriftWatch drift;
  for (int i = 0; i < 20; ++i) drift.sample();
  const double value = drift.finish();
  CHECK(value >= 0.0);
  CHECK(value < 1e3);
}

}  // namespace
}  // namespace tandem::exec::pacer_test
