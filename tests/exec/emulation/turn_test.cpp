#include "exec/emulation/turn.hpp"

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "exec/emulation/dilation.hpp"
#include "exec/emulation/drift.hpp"
#include "exec/emulation/pacer.hpp"
#include "exec/emulation/rehearsal.hpp"
#include "exec/profiling/synthetic_shard.hpp"
#include "model/base/error.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/serial_executor.hpp"

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer does not know that a timed lock whose owner has died (EOWNERDEAD) is taken.
extern "C" const char* __tsan_default_suppressions() {
  return "mutex:tandem::exec::SharedTurn::give_back";
}
#endif

namespace tandem::exec::turn_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A thread that takes turns, and what it is at.
struct Taker {
  enum class Stage : std::uint8_t { starting, asking, inside, done };
  std::atomic<Stage> stage = Stage::starting;
  std::atomic<pid_t> id = 0;  // the kernel's
  // It has asked, and sleeps until it is its turn.
  [[nodiscard]] bool waits() const {
    if (stage != Stage::asking) return false;
    std::ifstream file("/proc/self/task/" + std::to_string(id) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name = text.rfind(") ");
    return name != std::string::npos && text[name + 2] == 'S';
  }
};

struct TurnsTaken {
  std::vector<int> order;
  int most = 0;        // inside at once
  bool prompt = true;  // nobody waited so long that it lost its place by looking for a cancellation
};

// Four threads take three turns each. Whoever is inside leaves when all others wait or are done.
TurnsTaken take_turns() {
  using Stage = Taker::Stage;
  constexpr milliseconds kPrompt{150};
  SharedTurn turn;
  std::mutex mutex;
  TurnsTaken taken;
  std::atomic<int> inside = 0;
  std::array<Taker, 4> takers;
  turn.take();
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < takers.size(); ++i) {
    threads.emplace_back([&, i] {
      takers.at(i).id = static_cast<pid_t>(::syscall(SYS_gettid));
      SharedTurn mine(turn.descriptor());
      for (int again = 0; again < 3; ++again) {
        const auto asked = std::chrono::steady_clock::now();
        takers.at(i).stage = Stage::asking;
        mine.take();
        const int now = ++inside;
        takers.at(i).stage = Stage::inside;
        {
          const std::lock_guard lock(mutex);
          taken.order.push_back(static_cast<int>(i));
          taken.most = std::max(taken.most, now);
          if (std::chrono::steady_clock::now() - asked > kPrompt) taken.prompt = false;
        }
        for (std::size_t other = 0; other < takers.size(); ++other) {
          while (other != i && takers.at(other).stage != Stage::done && !takers.at(other).waits())
            std::this_thread::yield();
        }
        if (again == 2) takers.at(i).stage = Stage::done;
        --inside;
        mine.give_back();
      }
    });
    while (!takers.at(i).waits()) std::this_thread::yield();
  }
  turn.give_back();
  for (std::thread& thread : threads) thread.join();
  return taken;
}

TEST_CASE("exec/turn: processes and threads compute one at a time, each in the order of asking") {
  // Who takes it again at once comes after all that wait. On a machine so busy that nobody ever
  // waits for a short time only, nothing is said of the order.
  bool prompt = false;
  for (int again = 0; again < 50 && !prompt; ++again) {
    const TurnsTaken taken = take_turns();
    CHECK(taken.most == 1);
    prompt = taken.prompt;
    if (prompt) CHECK(taken.order == std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  }
}

TEST_CASE("exec/turn: of a process that is killed while it computes, the others have it at once") {
  SharedTurn turn;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    SharedTurn mine(turn.descriptor());
    mine.take();
    const char byte = 0;
    if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  auto taken = std::async(std::launch::async, [&] {
    SharedTurn mine(turn.descriptor());
    mine.take();
    mine.give_back();
    mine.take();  // and again: the file is whole
    mine.give_back();
  });
  CHECK(taken.wait_for(milliseconds(50)) == std::future_status::timeout);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(taken.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("exec/turn: cancelling ends the wait, even for one who never gives it back") {
  SharedTurn turn;
  turn.take();
  SharedTurn other(turn.descriptor());
  auto waiting = std::async(std::launch::async, [&] { other.take(); });
  CHECK(waiting.wait_for(milliseconds(20)) == std::future_status::timeout);
  other.cancel();
  CHECK_THROWS_AS(waiting.get(), Error);
  CHECK_THROWS_AS(other.take(), Error);
  turn.give_back();
}

TEST_CASE("exec/turn: a descriptor of something else is refused") {
  int other[2];
  REQUIRE(::pipe(other) == 0);
  CHECK_THROWS_WITH_AS(SharedTurn{other[0]}, doctest::Contains("is not their file"), Error);
  CHECK_THROWS_WITH_AS(SharedTurn{-1}, doctest::Contains("descriptor -1"), Error);
  ::close(other[0]);
  ::close(other[1]);
}

// Time that passes only when the test says so. A processor that has computed is slower for a while.
class FakeClock final : public LaneClock {
 public:
  TimePoint now() override { return TimePoint(wall); }
  nanoseconds cpu_time() override {
    // What the reference kernel takes between two readings.
    return cpu += wall - computed < milliseconds(1) ? microseconds(119) : microseconds(100);
  }
  void sleep_until(TimePoint when) override { wall = std::max(wall, when.time_since_epoch()); }
  nanoseconds wall{0};
  nanoseconds computed{-1'000'000'000};
  nanoseconds cpu{0};
};

class FakeTurn final : public Turn {
 public:
  void take() override { ++taken; }
  void give_back() noexcept override { ++given; }
  void cancel() noexcept override {}
  int taken = 0;
  int given = 0;
};

const model::Batch kBatch{{{.sequence = 0, .past = 0, .rows = 1}}};
const model::Task kTask{};

TEST_CASE("exec/pacer: a lane has the turn from its first task until it waits") {
  FakeClock clock;
  FakeTurn turn;
  Pacer pacer({.pace = Pace::measured, .slowdown = 2.0, .turn = &turn}, clock);
  const auto task = [&] {
    pacer.begin();
    clock.cpu += milliseconds(1);
    static_cast<void>(pacer.end(kBatch, kTask));
  };
  CHECK(turn.taken == 0);
  task();
  task();
  CHECK(turn.taken == 1);
  CHECK(turn.given == 0);
  SUBCASE("for its schedule") {
    pacer.settle();
    CHECK(turn.given == 1);
    pacer.settle();  // nothing to wait for, nothing to give back
    CHECK(turn.given == 1);
  }
  SUBCASE("for something else") {
    pacer.wait();
    pacer.wait();
    CHECK(turn.given == 1);
    task();
    CHECK(turn.taken == 2);
  }
  SUBCASE("or has computed for so long that others come first") {
    clock.wall += milliseconds(5);
    CHECK(turn.given == 0);  // never within a task
    task();
    CHECK(turn.given == 1);
    CHECK(turn.taken == 2);
  }
}

// A refill that takes time and says how often.
class FakeRefill final : public CacheRefill {
 public:
  explicit FakeRefill(FakeClock& clock) : clock_(&clock) {}
  void executed(const model::Task&) override { ++tasks; }
  void refill() override {
    ++refills;
    clock_->wall += milliseconds(2);
    clock_->cpu += milliseconds(2);
  }
  int tasks = 0;
  int refills = 0;

 private:
  FakeClock* clock_;
};

TEST_CASE("exec/pacer: a lane that waited for long refills its caches, and is not charged for it") {
  FakeClock clock;  // a task takes 100 us between two readings; so does reading
  FakeTurn turn;
  FakeRefill refill(clock);
  Pacer pacer({.pace = Pace::measured, .slowdown = 2.0, .turn = &turn, .refill = &refill}, clock);
  const auto task = [&] {
    pacer.begin();
    clock.cpu += milliseconds(1);
    return pacer.end(kBatch, kTask);
  };
  clock.wall += milliseconds(9);
  pacer.available(Pacer::TimePoint(clock.wall));
  static_cast<void>(task());
  const int first = refill.refills;
  SUBCASE("of its own accord, as it sleeps until it is due") {
    clock.wall += milliseconds(1);
    pacer.settle();
    const Pacer::Interval interval = task();
    CHECK(refill.refills == first);  // 1 ms is not long
    CHECK(interval.end - interval.start == milliseconds(2));
  }
  SUBCASE("for something else") {
    pacer.wait();
    clock.wall += microseconds(1100);
    const Pacer::Interval interval = task();
    CHECK(refill.refills == first + 1);
    CHECK(interval.end - interval.start == milliseconds(2));
    static_cast<void>(task());
    CHECK(refill.refills == first + 1);  // it did not wait
  }
  SUBCASE("without a turn there is nobody to lose caches to") {
    Pacer alone({.pace = Pace::measured, .slowdown = 2.0, .refill = &refill}, clock);
    alone.wait();
    clock.wall += milliseconds(50);
    alone.begin();
    static_cast<void>(alone.end(kBatch, kTask));
    CHECK(refill.refills == first);
  }
  CHECK(refill.tasks >= 2);
}

TEST_CASE("exec/rehearsal: a round begins after the task that was executed last") {
  const model::Transformer t = testing::small_llama();
  const planner::Plan plan = testing::plan_for(t, "tensor", 2, "equal", 5, 4);
  const model::TaskGraph graph =
      planner::find_strategy("tensor").lower(plan, {{{.sequence = 0, .past = 0, .rows = 1}}});
  const Shard shard = synthetic_shard(t, plan.devices[0].share, [](const WeightElement& e) {
    return 0.01F * static_cast<float>((e.row + e.column) % 7);
  });
  Rehearsal rehearsal(graph, 0, t, shard,
                      {.max_rows = 5,
                       .cache_positions = 16,
                       .buffers = model::storage_of(graph, plan.devices.size()).at(0).buffers});
  const std::vector<model::Task>& tasks = rehearsal.tasks();
  REQUIRE(tasks.size() > 10);
  for (const model::Task& task : tasks) CHECK(task.device == 0);
  // Twice round, as the device goes.
  for (std::size_t i = 0; i < 2 * tasks.size(); ++i) {
    CAPTURE(i);
    rehearsal.executed(tasks[i % tasks.size()]);
    CHECK(rehearsal.next() == (i + 1) % tasks.size());
    rehearsal.refill();
    CHECK(rehearsal.next() == (i + 1) % tasks.size());
  }
  model::Task of_prompt = tasks[3];
  of_prompt.rows = {0, 5};
  rehearsal.executed(of_prompt);  // as many rows, the same weights
  CHECK(rehearsal.next() == 4);
  model::Task other = tasks[3];
  other.layer = 99;
  rehearsal.executed(other);  // unknown: where it was
  CHECK(rehearsal.next() == 4);
}

TEST_CASE("exec/pacer: dilation multiplies times, and what is due says so") {
  FakeClock clock;  // a task takes 100 us between two readings; so does reading
  Pacer plain({.pace = Pace::measured, .slowdown = 4.0}, clock);
  Pacer slow({.pace = Pace::measured, .slowdown = 4.0, .dilation = 2.5}, clock);
  CHECK_THROWS_AS(Pacer({.pace = Pace::real, .dilation = 2.0}, clock), std::logic_error);
  CHECK_THROWS_AS(Pacer({.pace = Pace::measured, .dilation = 0.5}, clock), std::logic_error);
  for (Pacer* pacer : {&plain, &slow}) {
    pacer->begin();
    clock.cpu += milliseconds(1);
    static_cast<void>(pacer->end(kBatch, kTask));
  }
  CHECK(plain.due().time_since_epoch() == milliseconds(4));
  CHECK(slow.due().time_since_epoch() == milliseconds(10));
}

TEST_CASE("exec/drift: a machine that stands still has none, whether or not its lane ever sleeps") {
  // Vector instructions lower the clock by a fifth for a millisecond. A lane of slowdown 1 has
  // always just computed, a slower one has slept: either way the machine is the same.
  for (const bool sleeps : {false, true}) {
    CAPTURE(sleeps);
    FakeClock clock;
    FakeTurn turn;
    DriftWatch drift(&turn, clock);
    for (int step = 0; step < 20; ++step) {
      clock.wall += milliseconds(10);
      clock.computed = clock.wall;
      if (sleeps) clock.wall += milliseconds(10);
      drift.sample();
    }
    CHECK(drift.finish() == doctest::Approx(0.0));
    CHECK(turn.taken == turn.given);
    CHECK(turn.taken == 15 + 20 + 15);
  }
}

TEST_CASE("exec/dilation: demand is of devices that compute at the same moment") {
  // All of slowdown 1: a star of three needs three machines at once, a pipeline one.
  const auto plan = [](const char* strategy, const char* partition) {
    return testing::plan_for(testing::small_llama(), strategy, 3, partition, 5, 4);
  };
  CHECK(peak_demand(plan("tensor", "equal")) == doctest::Approx(3.0));
  CHECK(peak_demand(plan("pipeline", "equal")) == doctest::Approx(1.0));
  CHECK(peak_demand(plan("local", "")) == doctest::Approx(1.0));
}

TEST_CASE("exec/dilation: leaves 30% of what computes to catch up") {
  CHECK(dilation_for(0.7, Pace::measured, 2) == 1.0);
  CHECK(dilation_for(1.0, Pace::measured, 2) == 1.43);   // one computes at a time, on any machine
  CHECK(dilation_for(1.0, Pace::nominal, 2) == 1.0);     // at nominal pace all cores do
  CHECK(dilation_for(3.0, Pace::nominal, 2) == 2.15);    // 3 / (0.7 * 2) = 2.143
  CHECK(dilation_for(0.125, Pace::measured, 1) == 1.0);  // never faster
}

TEST_CASE("exec/dilation: links are as many times slower, by the same routes") {
  const model::Cluster cluster =
      testing::plan_for(testing::small_llama(), "tensor", 3, "equal", 5, 4).cluster;
  const model::Cluster slow = dilated(cluster, 2.5);
  const model::Route& before = cluster.route(0, 2);
  const model::Route& after = slow.route(0, 2);
  CHECK(after.hops == before.hops);
  CHECK(after.latency.value() == doctest::Approx(2.5 * before.latency.value()));
  CHECK(after.bandwidth.value() == doctest::Approx(before.bandwidth.value() / 2.5));
  CHECK(dilated(cluster, 1.0) == cluster);
  CHECK_THROWS_AS(static_cast<void>(dilated(cluster, 0.5)), std::logic_error);
}

}  // namespace
}  // namespace tandem::exec::turn_test
