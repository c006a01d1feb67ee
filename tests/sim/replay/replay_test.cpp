#include "sim/replay/replay.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>

#include "model/base/error.hpp"
#include "model/graph/message_schedule.hpp"
#include "tests/sim/random_simulations.hpp"
#include "tests/sim/sim_fixture.hpp"
#include "tests/support/relay_support.hpp"

namespace tandem::sim::testing::replay_test {
namespace {

using model::LaneKind;
using model::Sharing;

constexpr std::array kBuffers{model::BufferKind::none, model::BufferKind::hidden,
                              model::BufferKind::partial, model::BufferKind::receive,
                              model::BufferKind::key_value};

Task random_task(Dice& dice, int devices, const model::Batch& batch) {
  constexpr std::array kCompute{TaskKind::embed,       TaskKind::norm,     TaskKind::project_qkv,
                                TaskKind::attend,      TaskKind::add,      TaskKind::ffn_up,
                                TaskKind::project_out, TaskKind::ffn_down, TaskKind::lm_head,
                                TaskKind::sample,      TaskKind::release,  TaskKind::fetch};
  Task task;
  task.device = dice.in(0, devices - 1);
  task.rows = {0, dice.in(1, batch.rows())};
  task.layer = dice.in(-1, 2);
  task.columns = {0, dice.in(1, 6)};  // heads of small_llama(), or few columns
  const int what = dice.in(0, 9);
  if (what < 4 && devices > 1) {
    task.kind = TaskKind::transfer;
    task.lane = LaneKind::channel;
    task.peer = (task.device + dice.in(1, devices - 1)) % devices;
    task.columns = {0, dice.in(0, 9) == 0 ? 0 : dice.in(1, 40000)};
    // What these touch besides their dependencies decides when messages are copied.
    task.input.kind = kBuffers.at(static_cast<std::size_t>(dice.in(0, kBuffers.size() - 1)));
    task.output.kind = kBuffers.at(static_cast<std::size_t>(dice.in(0, kBuffers.size() - 1)));
  } else if (what == 4) {
    task.kind = TaskKind::load;
    task.lane = LaneKind::disk;
    task.block = model::WeightBlock::ffn;
  } else {
    task.kind = kCompute.at(static_cast<std::size_t>(dice.in(0, kCompute.size() - 1)));
    task.input.kind = kBuffers.at(static_cast<std::size_t>(dice.in(0, kBuffers.size() - 1)));
    task.output.kind = kBuffers.at(static_cast<std::size_t>(dice.in(0, kBuffers.size() - 1)));
  }
  return task;
}

// `events`: how many it carries. `awaited`: how many tasks may wait for.
TaskGraph random_graph(Dice& dice, int devices, int step, int events, int awaited) {
  const model::Batch batch{
      {{.sequence = 0, .past = step * 10, .rows = dice.in(1, 9)}, {.sequence = 1, .past = step}}};
  TaskGraph graph(batch);
  const int tasks = dice.in(events == 0 ? 0 : 1, 60);
  for (int i = 0; i < tasks; ++i) {
    std::vector<TaskIndex> dependencies;
    for (int d = dice.in(0, std::min(i, 3)); d > 0; --d) dependencies.push_back(dice.in(0, i - 1));
    // Channels whose first message waits for nothing are for the first two steps, see replay.cpp.
    if (dependencies.empty() && i > 0 && step > 1) dependencies.push_back(dice.in(0, i - 1));
    Task task = random_task(dice, devices, batch);
    if (dependencies.empty() && step > 1)
      task.kind = TaskKind::norm, task.lane = LaneKind::cpu, task.peer = -1,
      task.block = model::WeightBlock::none;
    if (i > 0 && dice.in(0, 3) == 0)
      test::try_relay(graph, dice.in(0, i - 1), dice.in(0, devices - 1), task, dependencies);
    std::vector<std::int32_t> waits;
    if (awaited > 0 && dice.in(0, 4) == 0) waits.push_back(dice.in(0, awaited - 1));
    graph.add(task, dependencies, waits);
  }
  for (int m = 0; m < events; ++m) graph.record_event(dice.in(0, tasks - 1));
  return graph;
}

// Wires of different speeds, an air that all share and that stations pass twice, and a link of
// which everyone has the whole bandwidth.
model::Cluster contended_cluster(Dice& dice, int devices) {
  std::vector<model::Device> list;
  std::vector<model::Link> links{
      link("core", dice.scale(1e-5, 1e-2), dice.scale(1e4, 1e6),
           dice.in(0, 1) == 0 ? Sharing::shared : Sharing::split_duplex),
      link("air", dice.scale(1e-5, 1e-2), dice.scale(1e4, 1e6), Sharing::shared),
      link("fat", 1e-3, dice.scale(1e4, 1e6), Sharing::fatpipe)};
  std::vector<model::Edge> edges{{"s", "t", {{0, model::Direction::up}}, true}};
  if (links[0].sharing == Sharing::shared) edges[0].hops[0].direction = model::Direction::none;
  for (int d = 0; d < devices; ++d) {
    list.push_back(device("d" + std::to_string(d)));
    model::Edge edge{list.back().name, dice.in(0, 1) == 0 ? "s" : "t", {}, true};
    const int kind = dice.in(0, 3);
    if (kind == 0) {
      edge.hops.push_back({1, model::Direction::none});
    } else {
      if (kind == 1) edge.hops.push_back({2, model::Direction::none});
      edge.hops.push_back({static_cast<model::LinkIndex>(links.size()), model::Direction::up});
      links.push_back(link("l" + std::to_string(d), dice.scale(1e-5, 1e-2), dice.scale(1e4, 1e6),
                           Sharing::split_duplex));
    }
    edges.push_back(edge);
  }
  return {"contended", list, {"s", "t"}, links, edges};
}

}  // namespace

TEST_CASE("sim/replay: equals the analytic evaluator with experts and latent attention") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Dice dice(seed);
    const model::Cluster cluster = random_cluster(dice, dice.in(1, 6));
    const model::CostModel dense = random_costs(dice, cluster);
    model::Transformer t = dense.transformer();
    t.experts = model::Experts{.count = 16, .chosen = 3, .shared = 100, .dense = 333};
    t.experts->dense_layers = {true, false, false};
    if (seed % 2 == 0) {
      t.kv_heads = t.heads;
      t.latent = model::LatentAttention{
          .query_rank = 24, .rank = 40, .plain = 12, .rotated = 4, .value = 10};
    }
    t.validate();
    const model::CostModel costs(t, dense.profiles());
    GraphSteps steps({random_graph(dice, cluster.size(), 0, 0, 0)});
    const Spans expected = analytic(cluster, costs, steps, Copies::with);
    const Spans found = simulated(cluster, costs, steps, Copies::with);
    CHECK(found.size() == expected.size());
    CHECK(differences(expected, found) == 0);
  }
}

TEST_CASE("sim/replay: equals the analytic evaluator to 1e-9 on 60 random graphs and platforms") {
  std::size_t spans = 0;
  int relays = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Dice dice(seed);
    const model::Cluster cluster = random_cluster(dice, dice.in(1, 6));
    const model::CostModel costs = random_costs(dice, cluster);
    std::vector<TaskGraph> graphs;
    const int events = dice.in(0, 4);
    for (int step = dice.in(1, 5), i = 0; i < step; ++i) {
      graphs.push_back(random_graph(dice, cluster.size(), i, events, i == 0 ? 2 : events));
    }
    GraphSteps steps(graphs);
    const Spans expected = analytic(cluster, costs, steps, Copies::with);
    const Spans found = simulated(cluster, costs, steps, Copies::with);
    CHECK(found.size() == expected.size());
    CHECK(differences(expected, found) == 0);
    spans += found.size();
    for (const TaskGraph& graph : graphs) {
      const model::MessageSchedule schedule = model::message_schedule(graph);
      for (TaskIndex i = 0; i < graph.size(); ++i) relays += schedule.is_relay(i) ? 1 : 0;
    }
  }
  CHECK(spans > 2000);
  CHECK(relays > 60);
}

TEST_CASE("sim/fair: shares links as SimGrid does, to 1e-9, on 60 random graphs and platforms") {
  int contended = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Dice dice(seed);
    const model::Cluster cluster = contended_cluster(dice, dice.in(2, 6));
    const model::CostModel costs = random_costs(dice, cluster);
    std::vector<TaskGraph> graphs;
    const int events = dice.in(0, 4);
    for (int step = dice.in(1, 5), i = 0; i < step; ++i)
      graphs.push_back(random_graph(dice, cluster.size(), i, events, i == 0 ? 2 : events));
    GraphSteps steps(graphs);
    const Spans expected = simulated(cluster, costs, steps, Copies::with);
    model::RunRecorder recorder(cluster, 0, true);
    evaluate_fair(cluster, costs, steps, recorder);
    CHECK(differences(expected, spans_of(recorder, Copies::with)) == 0);
    contended += differences(expected, analytic(cluster, costs, steps, Copies::with)) > 0 ? 1 : 0;
  }
  CHECK(contended > 40);
}

TEST_CASE("sim/replay: equals the analytic evaluator to 1e-9 after 200 steps of a ring, 30000 s") {
  Dice dice(7);
  const int devices = 5;
  std::vector<model::Device> list;
  list.reserve(static_cast<std::size_t>(devices));
  std::vector<model::Link> links;
  links.reserve(devices);
  std::vector<model::Edge> edges;
  edges.reserve(devices);
  for (int d = 0; d < devices; ++d) {
    list.push_back(device("d" + std::to_string(d)));
    links.push_back(link("l" + std::to_string(d), 0.0123, 1e3 / 3.0, Sharing::split_duplex));
  }
  for (int d = 0; d < devices; ++d) {
    edges.push_back({list[static_cast<std::size_t>(d)].name,
                     list[static_cast<std::size_t>((d + 1) % devices)].name,
                     {{d, model::Direction::up}},
                     true});
  }
  const model::Cluster cluster("ring", list, {}, links, edges);
  const model::CostModel costs = random_costs(dice, cluster);
  std::vector<TaskGraph> graphs;
  graphs.reserve(200);
  for (int step = 0; step < 200; ++step) {
    TaskGraph graph(one_row());
    std::vector<TaskIndex> last(devices, -1);
    for (int i = 0; i < 50; ++i) {
      const int at = i % devices;
      const int next = (at + 1) % devices;
      auto& before = last[static_cast<std::size_t>(at)];
      before = before < 0 ? graph.add(addition(at, 17), {}) : graph.add(addition(at, 17), {before});
      const TaskIndex sent = graph.add(message(at, next, dice.in(1, 1000)), {before});
      last[static_cast<std::size_t>(next)] = sent;
    }
    graphs.push_back(graph);
  }
  GraphSteps steps(graphs);
  const Spans expected = analytic(cluster, costs, steps, Copies::with);
  CHECK(makespan(expected) > 30000.0);
  CHECK(differences(expected, simulated(cluster, costs, steps, Copies::with)) == 0);
}

TEST_CASE("sim/replay: a channel sends one message after another, each done a latency later") {
  // 1000 B at 1000 B/s, 5 s of latency: sent at 1 s and 2 s, done at 6 s and 7 s.
  const model::Cluster cluster("pair", {device("a"), device("b")}, {},
                               {link("l", 5.0, 1000.0, Sharing::split_duplex)},
                               {{"a", "b", {{0, model::Direction::up}}, true}});
  TaskGraph graph(one_row());
  graph.add(message(0, 1, 250), {});
  graph.add(message(0, 1, 250), {});
  const TaskIndex back = graph.add(message(1, 0, 250), {1});
  const Spans spans = simulated(cluster, graph);
  CHECK(spans.at({0, 0}).start == doctest::Approx(0.0));
  CHECK(spans.at({0, 0}).end == doctest::Approx(6.0));
  CHECK(spans.at({0, 1}).start == doctest::Approx(1.0));
  CHECK(spans.at({0, 1}).end == doctest::Approx(7.0));
  CHECK(spans.at({0, back}).start == doctest::Approx(7.0));
  CHECK(spans.at({0, back}).end == doctest::Approx(13.0));
}

TEST_CASE("sim/replay: a lane goes on with the next step while others are in the last") {
  const model::Cluster cluster("three", {device("a"), device("b"), device("c")}, {},
                               {link("l", 0.0, 1000.0, Sharing::split_duplex)},
                               {{"a", "b", {{0, model::Direction::up}}, true},
                                {"b", "c", {{0, model::Direction::down}}, true}});
  std::vector<TaskGraph> graphs;
  for (int step = 0; step < 4; ++step) {
    TaskGraph graph(one_row());
    graph.add(message(0, 1, 250), {});                   // 1 s
    if (step == 0) graph.add(message(1, 2, 25000), {});  // 100 s
    graphs.push_back(graph);
  }
  GraphSteps steps(graphs);
  const Spans spans = simulated(cluster, free_costs(cluster), steps);
  CHECK(spans.at({3, 0}).start == doctest::Approx(3.0));
  CHECK(spans.at({3, 0}).end == doctest::Approx(4.0));
  CHECK(makespan(spans) == doctest::Approx(100.0));
}

TEST_CASE("sim/replay: no steps, empty graphs and tasks that take no time end") {
  const model::Cluster cluster("one", {device("a")}, {}, {}, {});
  GraphSteps none({});
  CHECK(simulated(cluster, free_costs(cluster), none).empty());
  TaskGraph graph(one_row());
  graph.add(addition(0, 1), {});
  GraphSteps steps({TaskGraph(one_row()), graph, TaskGraph(one_row()), TaskGraph(one_row()), graph,
                    TaskGraph(one_row())});
  CHECK(simulated(cluster, free_costs(cluster), steps).size() == 2);
}

TEST_CASE("sim/replay: a load on a device without a disk is the caller's error") {
  model::Device bare = device("a");
  bare.disk_bandwidth = {};
  const model::Cluster cluster("one", {bare}, {}, {}, {});
  TaskGraph graph(one_row());
  graph.add({.kind = TaskKind::load,
             .lane = LaneKind::disk,
             .block = model::WeightBlock::ffn,
             .columns = {0, 3}},
            {});
  GraphSteps steps({graph});
  CHECK_THROWS_AS(simulated(cluster, free_costs(cluster), steps), std::logic_error);
}

namespace {

// Steps that fail in the child.
class FailingSteps : public model::Steps {
 public:
  explicit FailingSteps(std::function<void()> fail) : fail_(std::move(fail)), graph_(one_row()) {}
  [[nodiscard]] std::int32_t count() const override { return 3; }
  const TaskGraph& graph(std::int32_t i) override {
    if (i == 1) fail_();
    return graph_;
  }

 private:
  std::function<void()> fail_;
  TaskGraph graph_;
};

std::string message_of(const std::function<void()>& fail) {
  const model::Cluster cluster("one", {device("a")}, {}, {}, {});
  FailingSteps steps(fail);
  try {
    simulated(cluster, free_costs(cluster), steps);
  } catch (const Error& e) {
    return std::string("Error ") + e.what();
  } catch (const std::logic_error& e) {
    return std::string("logic_error ") + e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("sim/replay: an exception in the child comes back") {
  CHECK(message_of([] { throw Error("the world"); }) == "Error the world");
  CHECK(message_of([] { throw std::logic_error("the caller"); }) == "logic_error the caller");
  CHECK(message_of([] { throw std::runtime_error("else"); }) == "Error else");
}

TEST_CASE("sim/replay: a child that dies is an Error that says how and what it said") {
  const std::string exited = message_of([] {
    std::fputs("last\nwords", stderr);
    std::_Exit(3);
  });
  CHECK(exited == "Error simulation: SimGrid's process exited with 3 and said: last words");
  const std::string killed = message_of([] { std::raise(SIGKILL); });
  CHECK(killed.find("signal 9") != std::string::npos);
}

TEST_CASE("sim/replay: network_settings names every factor of the model") {
  const auto settings = network_settings();
  CHECK(settings.at("network/model") == "CM02");
  CHECK(settings.at("network/latency-factor") == "1");
  CHECK(settings.at("network/bandwidth-factor") == "1");
  CHECK(settings.at("network/crosstraffic") == "0");
  CHECK(settings.contains("network/weight-S"));
  CHECK(settings.contains("network/TCP-gamma"));
}

}  // namespace tandem::sim::testing::replay_test
