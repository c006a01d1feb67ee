// How long the analytic evaluator takes for 100 tokens of Llama 2-70B over 8 devices: a graph of
// the size of tensor parallelism with two star all-reduces a layer.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "model/predict/analytic.hpp"
#include "models.hpp"

namespace {

using namespace tandem::model;

constexpr std::int32_t kDevices = 8;
constexpr std::int32_t kTokens = 100;

Cluster star_of_homes() {
  std::vector<Device> devices;
  std::vector<Link> links;
  std::vector<Edge> edges;
  for (int i = 0; i < kDevices; ++i) {
    const std::string name = "home-" + std::to_string(i);
    devices.push_back({.name = name,
                       .flop_rate = FlopsPerSecond{50e9},
                       .memory_bandwidth = BytesPerSecond{20e9},
                       .memory = Bytes{64e9}});
    links.push_back({.name = name + "-link", .latency = Seconds{1e-3}, .bandwidth = 300_Mbps});
    edges.push_back({.from = name, .to = "core", .hops = {{i, Direction::up}}});
  }
  return {"homes", devices, {"core"}, links, edges};
}

// Adds the devices' partial sums on the master and sends the result back; `last` is each device's
// latest task, before and after.
void all_reduce(TaskGraph& graph, std::vector<TaskIndex>& last, std::int32_t layer, Range columns) {
  Task add{.kind = TaskKind::add, .layer = layer, .rows = {0, 1}, .columns = columns};
  Task transfer = add;
  transfer.kind = TaskKind::transfer;
  transfer.lane = LaneKind::channel;
  TaskIndex sum = graph.add(add, {last[0]});
  for (DeviceIndex d = 1; d < kDevices; ++d) {
    transfer.device = d;
    transfer.peer = 0;
    const TaskIndex arrived = graph.add(transfer, {last[static_cast<std::size_t>(d)]});
    sum = graph.add(add, {sum, arrived});
  }
  last[0] = sum;
  for (DeviceIndex d = 1; d < kDevices; ++d) {
    transfer.device = 0;
    transfer.peer = d;
    last[static_cast<std::size_t>(d)] = graph.add(transfer, {sum});
  }
}

TaskGraph decode_graph(const Transformer& t) {
  TaskGraph graph(Batch{{{.past = 100}}});
  const Range hidden{0, static_cast<std::int32_t>(t.hidden)};
  std::vector<TaskIndex> last(
      kDevices, graph.add({.kind = TaskKind::embed, .rows = {0, 1}, .columns = hidden}, {}));
  for (std::int32_t layer = 0; layer < t.layers; ++layer) {
    const auto run = [&](std::initializer_list<TaskKind> kinds, std::int64_t whole) {
      for (DeviceIndex d = 0; d < kDevices; ++d) {
        const Range share{static_cast<std::int32_t>(whole * d / kDevices),
                          static_cast<std::int32_t>(whole * (d + 1) / kDevices)};
        TaskIndex& previous = last[static_cast<std::size_t>(d)];
        for (const TaskKind kind : kinds) {
          previous = graph.add(
              {.kind = kind, .device = d, .layer = layer, .rows = {0, 1}, .columns = share},
              {previous});
        }
      }
      all_reduce(graph, last, layer, hidden);
    };
    run({TaskKind::norm, TaskKind::project_qkv, TaskKind::attend, TaskKind::project_out}, t.heads);
    run({TaskKind::norm, TaskKind::ffn_up, TaskKind::ffn_down}, t.intermediate);
  }
  const TaskIndex logits = graph.add({.kind = TaskKind::lm_head,
                                      .rows = {0, 1},
                                      .columns = {0, static_cast<std::int32_t>(t.vocab)}},
                                     {last[0]});
  graph.add({.kind = TaskKind::sample, .rows = {0, 1}}, {logits});
  return graph;
}

class DecodeSteps : public Steps {
 public:
  explicit DecodeSteps(TaskGraph graph) : graph_(std::move(graph)) {}
  [[nodiscard]] std::int32_t count() const override { return kTokens; }
  const TaskGraph& graph(std::int32_t i) override {
    const std::int32_t past[] = {100 + i};
    graph_.advance(past);
    return graph_;
  }

 private:
  TaskGraph graph_;
};

void evaluate(benchmark::State& state) {
  const Transformer transformer = tandem::bench::llama2_70b();
  const Cluster cluster = star_of_homes();
  std::vector<DeviceProfile> profiles;
  for (const Device& device : cluster.devices()) profiles.push_back(nominal_profile(device));
  const CostModel costs(transformer, profiles);
  DecodeSteps steps(decode_graph(transformer));
  for (auto _ : state) {
    RunRecorder recorder(cluster, 0, false);
    evaluate_analytic(cluster, costs, steps, recorder);
    benchmark::DoNotOptimize(recorder.metrics());
  }
  const double tasks = static_cast<double>(steps.graph(0).size()) * kTokens;
  state.counters["tasks"] = tasks;
  state.counters["tasks/s"] =
      benchmark::Counter(tasks, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(evaluate)
    ->Name("analytic/llama-2-70b, 8 devices, 100 tokens")
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
