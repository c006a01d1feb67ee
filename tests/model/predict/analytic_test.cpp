#include "model/predict/analytic.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <random>
#include <tuple>

#include "model/graph/message_schedule.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/support/relay_support.hpp"

namespace tandem::model::analytic_test {
namespace {

// The same graph every step, `past` growing by one.
class Repeat : public Steps {
 public:
  Repeat(TaskGraph graph, std::int32_t count) : graph_(std::move(graph)), count_(count) {}
  [[nodiscard]] std::int32_t count() const override { return count_; }
  const TaskGraph& graph(std::int32_t i) override {
    std::vector<std::int32_t> past(graph_.batch().segments.size(), i);
    graph_.advance(past);
    return graph_;
  }

 private:
  TaskGraph graph_;
  std::int32_t count_;
};

bool is_copy(TaskKind kind) { return kind == TaskKind::capture || kind == TaskKind::deliver; }

// A profile by which every compute task takes one second, whatever it does, and copies no time.
DeviceProfile one_second() {
  DeviceProfile profile = nominal_profile(test::device("d"));
  for (int k = 0; k < kTaskKinds; ++k) {
    const auto kind = static_cast<TaskKind>(k);
    if (kind == TaskKind::transfer) continue;
    if (is_copy(kind)) {
      profile.rate[static_cast<std::size_t>(k)] = {0.0, {{1.0, 0.0}}};
      continue;
    }
    profile.rate[static_cast<std::size_t>(k)] = {1.0, {{1.0, 0.0}}};
  }
  return profile;
}

Task add_on(DeviceIndex device) {
  return {.kind = TaskKind::add, .device = device, .rows = {0, 1}, .columns = {0, 1}};
}
// `columns` * 4 bytes.
Task send(DeviceIndex from, DeviceIndex to, std::int32_t columns) {
  return {.kind = TaskKind::transfer,
          .lane = LaneKind::channel,
          .device = from,
          .peer = to,
          .rows = {0, 1},
          .columns = {0, columns}};
}

// Of tasks, by step and task.
std::vector<Span> evaluate(const Cluster& cluster, const CostModel& costs, TaskGraph graph,
                           std::int32_t steps = 1) {
  Repeat repeat(std::move(graph), steps);
  RunRecorder recorder(cluster, 0, true);
  evaluate_analytic(cluster, costs, repeat, recorder);
  std::vector<Span> spans = recorder.trace().spans;
  std::erase_if(spans, [](const Span& span) { return is_copy(span.kind); });
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.step, a.task) < std::tie(b.step, b.task);
  });
  return spans;
}

// The spans of the captures or deliveries, by task.
std::map<TaskIndex, Span> copies(TaskKind kind, const Cluster& cluster, const CostModel& costs,
                                 const TaskGraph& graph) {
  OneStep step(graph);
  RunRecorder recorder(cluster, 0, true);
  evaluate_analytic(cluster, costs, step, recorder);
  std::map<TaskIndex, Span> spans;
  for (const Span& span : recorder.trace().spans) {
    if (span.kind == kind) spans[span.task] = span;
  }
  return spans;
}

// one_second(), and a capture takes `capture_s`, a delivery `delivery_s`.
CostModel copying_model(int devices, double capture_s, double delivery_s) {
  DeviceProfile profile = one_second();
  profile.rate[static_cast<std::size_t>(TaskKind::capture)].overhead_s = capture_s;
  profile.rate[static_cast<std::size_t>(TaskKind::deliver)].overhead_s = delivery_s;
  return {test::small_llama(),
          std::vector<DeviceProfile>(static_cast<std::size_t>(devices), profile)};
}

CostModel seconds_model(int devices) {
  return {test::small_llama(),
          std::vector<DeviceProfile>(static_cast<std::size_t>(devices), one_second())};
}

}  // namespace

TEST_CASE("model/analytic: a lane runs its tasks in order, after their dependencies") {
  const Cluster cluster = test::star(2, Seconds{0.25}, BytesPerSecond{4.0});
  TaskGraph graph(Batch{{{}}});
  const TaskIndex a = graph.add(add_on(0), {});
  const TaskIndex message = graph.add(send(0, 1, 3), {a});
  const TaskIndex b = graph.add(add_on(1), {message});
  const TaskIndex c = graph.add(add_on(1), {});  // free to start, but behind b
  const TaskIndex d = graph.add(add_on(0), {});
  const std::vector<Span> spans = evaluate(cluster, seconds_model(2), graph);
  const auto at = [&](TaskIndex i) { return spans[static_cast<std::size_t>(i)]; };
  SUBCASE("12 bytes at 4 B/s and 2 * 0.25 s: from 1 to 4.5") {
    CHECK(at(message).start == 1.0);
    CHECK(at(message).end == 4.5);
    CHECK(at(message).bytes == 12.0);
  }
  SUBCASE("the receiver starts when the message is there, its next task behind") {
    CHECK(at(b).start == 4.5);
    CHECK(at(c).start == 5.5);
  }
  SUBCASE("the sender goes on") { CHECK(at(d).start == 1.0); }
}

TEST_CASE("model/analytic: messages of a channel overlap in flight, not on the wire") {
  const Cluster cluster = test::star(3, Seconds{5.0}, BytesPerSecond{4.0});
  TaskGraph graph(Batch{{{}}});
  graph.add(send(0, 1, 2), {});  // 2 s on the wire, 10 s in flight
  graph.add(send(0, 1, 1), {});
  graph.add(send(0, 2, 1), {});  // another channel: nothing contends
  graph.add(send(1, 0, 1), {});
  const std::vector<Span> spans = evaluate(cluster, seconds_model(3), graph);
  CHECK(spans[0].end == 12.0);
  CHECK(spans[1].start == 2.0);
  CHECK(spans[1].end == 13.0);
  CHECK(spans[2].start == 0.0);
  CHECK(spans[2].end == 11.0);
  CHECK(spans[3].start == 0.0);
}

TEST_CASE("model/analytic: a message's overhead occupies its channel") {
  const Cluster cluster = test::star(2, Seconds{0.0}, BytesPerSecond{4.0});
  DeviceProfile profile = one_second();
  profile.rate[static_cast<std::size_t>(TaskKind::transfer)] = {0.5, {{1.0, 0.125}}};
  const CostModel costs(test::small_llama(), {profile, profile});
  TaskGraph graph(Batch{{{}}});
  graph.add(send(0, 1, 1), {});
  graph.add(send(0, 1, 1), {});
  const std::vector<Span> spans = evaluate(cluster, costs, graph);
  CHECK(spans[0].end == 2.0);  // 0.5 + 4 * 0.125 + 4 / 4
  CHECK(spans[1].start == 2.0);
}

TEST_CASE("model/analytic: loads run on the disk lane, beside the cpu, releases take no time") {
  const Cluster cluster = test::star(1);  // 500 MB/s
  TaskGraph graph(Batch{{{}}});
  Task load{.kind = TaskKind::load,
            .lane = LaneKind::disk,
            .block = WeightBlock::ffn,
            .layer = 0,
            .columns = {0, 40}};
  const TaskIndex loaded = graph.add(load, {});
  graph.add(add_on(0), {});
  const TaskIndex used = graph.add(add_on(0), {loaded});
  Task release = load;
  release.kind = TaskKind::release;
  release.lane = LaneKind::cpu;
  graph.add(release, {used});
  const std::vector<Span> spans = evaluate(cluster, seconds_model(1), graph);
  CHECK(spans[0].end == doctest::Approx(4.0 * (3 * 24 * 40 + 24) / 500e6));
  CHECK(spans[1].start == 0.0);
  CHECK(spans[3].start == 2.0);
  CHECK(spans[3].end == 2.0);
}

TEST_CASE("model/analytic: a load without a disk, a device without a place are caller's errors") {
  Device diskless = test::device("d");
  diskless.disk_bandwidth = BytesPerSecond{0.0};
  const Cluster cluster("c", {diskless}, {}, {}, {});
  TaskGraph graph(Batch{{{}}});
  graph.add({.kind = TaskKind::load, .lane = LaneKind::disk, .block = WeightBlock::head}, {});
  CHECK_THROWS_AS(evaluate(cluster, seconds_model(1), graph), std::logic_error);
  TaskGraph elsewhere(Batch{{{}}});
  elsewhere.add(add_on(1), {});
  CHECK_THROWS_AS(evaluate(cluster, seconds_model(1), elsewhere), std::logic_error);
}

TEST_CASE("model/analytic: lanes stay busy across steps, dependencies do not") {
  const Cluster cluster = test::star(2);
  TaskGraph graph(Batch{{{}}});
  graph.add(add_on(0), {});
  graph.add(add_on(1), {});
  graph.add(add_on(1), {});
  const std::vector<Span> spans = evaluate(cluster, seconds_model(2), graph, 3);
  CHECK(spans[6].step == 2);
  CHECK(spans[6].start == 2.0);  // device 0: one task a step
  CHECK(spans[7].start == 4.0);  // device 1: two
}

TEST_CASE("model/analytic: attention grows with the context when a graph comes back advanced") {
  const Transformer t = test::small_llama();
  const Cluster cluster = test::star(1);
  const CostModel costs(t, {nominal_profile(test::device("d"))});
  TaskGraph graph(Batch{{{}}});
  const Task attend{.kind = TaskKind::attend, .layer = 0, .rows = {0, 1}, .columns = {0, 6}};
  const TaskIndex norm = graph.add({.kind = TaskKind::norm, .rows = {0, 1}}, {});
  graph.add(attend, {norm});
  const std::vector<Span> spans = evaluate(cluster, costs, graph, 40);
  for (std::int32_t step = 0; step < 40; ++step) {
    CAPTURE(step);
    const Span& s = spans[static_cast<std::size_t>(2 * step + 1)];
    const Batch batch{{{.past = step}}};
    CHECK(s.flops == work_of(t, batch, attend).flops);
    CHECK(s.end - s.start ==
          doctest::Approx(costs.compute_time(batch, attend).value()).epsilon(1e-9));
  }
}

TEST_CASE("model/analytic: graphs of several structures in turn keep their own costs") {
  class Alternate : public Steps {
   public:
    Alternate() {
      for (std::int32_t columns = 1; columns <= 2; ++columns) {
        graphs_.emplace_back(Batch{{{}}});
        graphs_.back().add(send(0, 1, columns), {});
      }
    }
    [[nodiscard]] std::int32_t count() const override { return 6; }
    const TaskGraph& graph(std::int32_t i) override {
      return graphs_[static_cast<std::size_t>(i % 2)];
    }

   private:
    std::vector<TaskGraph> graphs_;
  };
  const Cluster cluster = test::star(2, Seconds{0.0}, BytesPerSecond{4.0});
  const CostModel costs = seconds_model(2);
  Alternate steps;
  RunRecorder recorder(cluster, 0, true);
  evaluate_analytic(cluster, costs, steps, recorder);
  for (const Span& s : recorder.trace().spans) {
    if (!is_copy(s.kind)) CHECK(s.end - s.start == 1.0 + s.step % 2);
  }
}

namespace {

// One thing that a lane does, and when, found by relaxation until nothing changes, in any order,
// instead of one pass.
struct Entry {
  TaskIndex task = 0;
  TaskKind kind = TaskKind::add;
  std::vector<std::size_t> after{};       // done before
  std::vector<std::size_t> lane_after{};  // out of the lane before
  double occupied = 0.0;
  double flight = 0.0;
  double start = 0.0;
};

constexpr double kCapture = 0.25;
constexpr double kDelivery = 0.5;
constexpr double kFlight = 1.0;

// Capture and delivery of transfers in 3 i and 3 i + 2, every task itself in 3 i + 1.
std::vector<Entry> entries_of(const TaskGraph& graph) {
  const MessageSchedule schedule = message_schedule(graph);
  std::vector<Entry> entries(3 * graph.tasks().size());
  using Key = std::tuple<TaskIndex, int, TaskIndex>;
  std::map<DeviceIndex, std::map<Key, std::size_t>> cpu;
  std::map<std::pair<DeviceIndex, DeviceIndex>, std::vector<std::size_t>> channels;
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Task& task = graph.tasks()[at];
    Entry& own = entries[3 * at + 1];
    own.task = i;
    own.kind = task.kind;
    std::vector<std::size_t> after;
    for (const TaskIndex d : graph.dependencies(i))
      after.push_back(3 * static_cast<std::size_t>(d) + 1);
    if (task.lane == LaneKind::cpu) {
      own.occupied = 1.0;
      own.after = after;
      cpu[task.device][{i, 1, i}] = 3 * at + 1;
      continue;
    }
    own.occupied = 4.0 * task.columns.size() / 8.0;
    own.flight = kFlight;
    const bool relay = schedule.is_relay(i);
    own.after = {relay ? 3 * static_cast<std::size_t>(schedule.source[at]) + 1 : 3 * at};
    if (!relay) {
      entries[3 * at] = {
          .task = i, .kind = TaskKind::capture, .after = after, .occupied = kCapture};
      cpu[task.device][{schedule.capture[at], 2, i}] = 3 * at;
    }
    entries[3 * at + 2] = {
        .task = i, .kind = TaskKind::deliver, .after = {3 * at + 1}, .occupied = kDelivery};
    cpu[task.peer][{schedule.delivery[at], 0, i}] = 3 * at + 2;
    channels[{task.device, task.peer}].push_back(3 * at + 1);
  }
  for (const auto& [device, lane] : cpu) {
    for (auto it = lane.begin(); it != lane.end() && std::next(it) != lane.end(); ++it)
      entries[std::next(it)->second].lane_after.push_back(it->second);
  }
  for (const auto& [ends, lane] : channels) {
    for (std::size_t k = 1; k < lane.size(); ++k)
      entries[lane[k]].lane_after.push_back(lane[k - 1]);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = entries.size(); i-- > 0;) {
      double earliest = 0.0;
      for (const std::size_t j : entries[i].after)
        earliest = std::max(earliest, entries[j].start + entries[j].occupied + entries[j].flight);
      for (const std::size_t j : entries[i].lane_after)
        earliest = std::max(earliest, entries[j].start + entries[j].occupied);
      if (earliest != entries[i].start) changed = true;
      entries[i].start = earliest;
    }
  }
  return entries;
}

}  // namespace

TEST_CASE("model/analytic: random graphs equal a longest path over lanes and dependencies") {
  std::mt19937 random(23);
  const auto draw = [&](std::int32_t below) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(below));
  };
  constexpr std::array kBuffers{BufferKind::hidden, BufferKind::partial, BufferKind::receive};
  const Cluster cluster = test::star(4, Seconds{0.5}, BytesPerSecond{8.0});
  const CostModel costs = copying_model(4, kCapture, kDelivery);
  int relays = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    TaskGraph graph(Batch{{{}}});
    const std::int32_t tasks = 1 + draw(60);
    for (std::int32_t i = 0; i < tasks; ++i) {
      std::vector<TaskIndex> dependencies;
      for (std::int32_t d = draw(4); i > 0 && d > 0; --d) dependencies.push_back(draw(i));
      const DeviceIndex from = draw(4);
      const bool local = draw(2) == 0;
      const DeviceIndex to = (from + 1 + draw(3)) % 4;
      Task task = local ? add_on(from) : send(from, to, 1 + draw(5));
      // Half of the graphs use buffers that say more than their dependencies do.
      if (round % 2 == 1) {
        task.input.kind = kBuffers.at(static_cast<std::size_t>(draw(3)));
        task.output.kind = kBuffers.at(static_cast<std::size_t>(draw(3)));
      }
      if (i > 0 && draw(4) == 0)
        tandem::test::try_relay(graph, draw(i), draw(4), task, dependencies);
      graph.add(task, dependencies);
    }
    const MessageSchedule schedule = message_schedule(graph);
    for (TaskIndex i = 0; i < graph.size(); ++i) relays += schedule.is_relay(i) ? 1 : 0;
    const std::vector<Span> spans = evaluate(cluster, costs, graph);
    const auto captures = copies(TaskKind::capture, cluster, costs, graph);
    const auto deliveries = copies(TaskKind::deliver, cluster, costs, graph);
    for (const Entry& entry : entries_of(graph)) {
      if (entry.occupied == 0.0) continue;
      const Span& span = entry.kind == TaskKind::capture ? captures.at(entry.task)
                         : entry.kind == TaskKind::deliver
                             ? deliveries.at(entry.task)
                             : spans.at(static_cast<std::size_t>(entry.task));
      CHECK(span.start == entry.start);
      CHECK(span.end == entry.start + entry.occupied + entry.flight);
    }
  }
  CHECK(relays > 100);
}

TEST_CASE("model/analytic: copies take the cpu lanes of both ends, in their order") {
  // Two messages to device 1, 1 s on the wire, no latency; a capture takes 0.25 s, a delivery 0.5
  // s.
  const Cluster cluster = test::star(3, Seconds{0.0}, BytesPerSecond{4.0});
  const CostModel costs = copying_model(3, kCapture, kDelivery);
  TaskGraph graph(Batch{{{}}});
  const TaskIndex made = graph.add(add_on(0), {});              // 0 to 1
  const TaskIndex first = graph.add(send(0, 1, 1), {made});     // captured 1 to 1.25
  const TaskIndex second = graph.add(send(0, 2, 1), {made});    // captured 1.25 to 1.5
  const TaskIndex goes_on = graph.add(add_on(0), {});           // behind both
  const TaskIndex relayed = graph.add(send(1, 2, 1), {first});  // forwarded
  const TaskIndex summed = graph.add(add_on(2), {second, relayed});
  const TaskIndex unused = graph.add(send(0, 1, 1), {goes_on});  // nobody needs it
  const std::vector<Span> spans = evaluate(cluster, costs, graph);
  const auto captured = copies(TaskKind::capture, cluster, costs, graph);
  const auto delivered = copies(TaskKind::deliver, cluster, costs, graph);
  const auto at = [&](TaskIndex i) { return spans[static_cast<std::size_t>(i)]; };
  CHECK(captured.at(first).start == 1.0);
  CHECK(captured.at(second).start == 1.25);
  CHECK(captured.at(second).device == 0);
  CHECK(captured.at(second).lane == LaneKind::cpu);
  CHECK(captured.at(second).bytes == 8.0);  // read once, written once
  CHECK(at(goes_on).start == 1.5);
  CHECK(at(first).start == 1.25);
  CHECK(at(first).end == 2.25);
  CHECK(delivered.at(first).start == 2.25);
  CHECK(delivered.at(first).device == 1);
  CHECK(captured.at(relayed).start == 2.75);  // a relay copies in, then out
  CHECK(at(relayed).end == 4.0);
  CHECK(delivered.at(second).start == 2.5);  // both before what needs both
  CHECK(delivered.at(relayed).start == 4.0);
  CHECK(at(summed).start == 4.5);
  CHECK(delivered.at(unused).start == 3.75);  // at the end of the step: it is copied all the same
  CHECK(delivered.at(unused).end == 4.25);
}

TEST_CASE("model/analytic: small messages take the computing threads' time, large ones do not") {
  const Cluster cluster = test::star(2, Seconds{0.0}, BytesPerSecond{1e9});
  DeviceProfile profile = one_second();
  profile.rate[static_cast<std::size_t>(TaskKind::transfer)].overhead_s = 0.125;
  profile.inlined = InlineRates{.send = {0.25, {{1.0, 0.0}}},
                                .transfer = {0.0625, {{1.0, 0.0}}},
                                .receive = {0.5, {{1.0, 0.0}}}};
  const CostModel costs(test::small_llama(), {profile, profile});
  const auto total = [&](std::int32_t columns) {
    TaskGraph graph(Batch{{{}}});
    const TaskIndex sent = graph.add(send(0, 1, columns), {});
    graph.add(add_on(1), {sent});
    return evaluate(cluster, costs, graph).at(1).start;
  };
  const double wire = 65536.0 / 1e9;
  CHECK(total(16384) == doctest::Approx(0.25 + 0.0625 + wire + 0.5).epsilon(1e-12));
  CHECK(total(16385) == doctest::Approx(0.125 + wire + 4e-9).epsilon(1e-12));
  // One large message of a channel needs a thread, which then sends the small ones too.
  TaskGraph graph(Batch{{{}}});
  const TaskIndex small = graph.add(send(0, 1, 1), {});
  graph.add(send(0, 1, 20000), {small});
  CHECK(copies(TaskKind::capture, cluster, costs, graph).at(small).end == 0.0);
}

TEST_CASE(
    "model/analytic: events reach into the step before, and loads stall what waits for them") {
  // A load takes 4 s, every other task 1 s.
  const Cluster fast = test::star(1);
  std::vector<Device> devices = fast.devices();
  const double bytes = kElementBytes * 10.0 * static_cast<double>(test::small_llama().hidden);
  devices[0].disk_bandwidth = BytesPerSecond{bytes / 4.0};
  const Cluster cluster("slow disk", devices, fast.routers(), fast.links(), fast.edges());
  const CostModel costs(test::small_llama(), {one_second()});
  TaskGraph graph(Batch{{{.sequence = 0}}});
  const Task load{.kind = TaskKind::load,
                  .lane = LaneKind::disk,
                  .block = WeightBlock::head,
                  .columns = {0, 10}};
  const TaskIndex loaded = graph.add(load, {}, {0});
  const TaskIndex used = graph.add(add_on(0), {loaded});
  graph.add(add_on(0), {used});
  graph.record_event(used);
  const std::vector<Span> spans = evaluate(cluster, costs, graph, 3);
  // Load and use take turns, as the event demands; the second add is hidden behind the load.
  for (int step = 0; step < 3; ++step) {
    CAPTURE(step);
    const auto at = static_cast<std::size_t>(3 * step);
    CHECK(spans[at].start == doctest::Approx(5.0 * step));
    CHECK(spans[at + 1].start == doctest::Approx(5.0 * step + 4.0));
    CHECK(spans[at + 1].stall == doctest::Approx(step == 0 ? 4.0 : 3.0));
    CHECK(spans[at + 2].stall == 0.0);
  }
  graph.add(add_on(0), {}, {1});
  CHECK_THROWS_AS(evaluate(cluster, costs, graph, 2), std::logic_error);
}

}  // namespace tandem::model::analytic_test
