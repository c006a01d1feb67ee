#pragma once

// Hand-made clusters, graphs and runs for the tests of sim/.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/predict/analytic.hpp"
#include "model/predict/cost_model.hpp"
#include "sim/replay/replay.hpp"

namespace tandem::sim::testing {

using model::DeviceIndex;
using model::Span;
using model::Task;
using model::TaskGraph;
using model::TaskIndex;
using model::TaskKind;

inline model::Transformer small_llama() {
  return {.name = "small",
          .layers = 3,
          .hidden = 96,
          .heads = 6,
          .kv_heads = 3,
          .head_dim = 16,
          .intermediate = 200,
          .vocab = 301,
          .max_context = 4096};
}

inline model::Device device(const std::string& name) {
  return {.name = name,
          .cores = 1,
          .flop_rate = model::FlopsPerSecond{1e9},
          .memory_bandwidth = model::BytesPerSecond{1e9},
          .memory = model::Bytes{1e9},
          .disk_bandwidth = model::BytesPerSecond{1e8}};
}

inline model::Link link(const std::string& name, double latency_s, double bandwidth_Bps,
                        model::Sharing sharing) {
  return {name, model::Seconds{latency_s}, model::BytesPerSecond{bandwidth_Bps}, sharing};
}

// Computing and messages cost nothing beyond the links.
inline model::DeviceProfile free_profile() {
  model::DeviceProfile profile;
  profile.source = "test";
  for (auto& rate : profile.rate) rate.points = {{.intensity = 1.0, .seconds_per_byte = 0.0}};
  return profile;
}

inline model::CostModel free_costs(const model::Cluster& cluster) {
  return {small_llama(),
          std::vector<model::DeviceProfile>(cluster.devices().size(), free_profile())};
}

// `columns` * 4 bytes from one device to another.
inline Task message(DeviceIndex from, DeviceIndex to, std::int32_t columns) {
  return {.kind = TaskKind::transfer,
          .lane = model::LaneKind::channel,
          .device = from,
          .peer = to,
          .rows = {0, 1},
          .columns = {0, columns},
          .input = {.kind = model::BufferKind::partial},
          .output = {.kind = model::BufferKind::receive}};
}

inline Task addition(DeviceIndex at, std::int32_t columns) {
  return {.kind = TaskKind::add,
          .device = at,
          .rows = {0, 1},
          .columns = {0, columns},
          .input = {.kind = model::BufferKind::receive},
          .output = {.kind = model::BufferKind::partial}};
}

inline model::Batch one_row() { return {{{.sequence = 0, .past = 0, .rows = 1}}}; }

// Given graphs, one a step.
class GraphSteps : public model::Steps {
 public:
  explicit GraphSteps(std::vector<TaskGraph> graphs) : graphs_(std::move(graphs)) {}
  [[nodiscard]] std::int32_t count() const override {
    return static_cast<std::int32_t>(graphs_.size());
  }
  const TaskGraph& graph(std::int32_t i) override {
    return graphs_.at(static_cast<std::size_t>(i));
  }

 private:
  std::vector<TaskGraph> graphs_;
};

// Spans by step and task; where wanted, captures and deliveries by captured() and delivered().
using Spans = std::map<std::pair<std::int32_t, TaskIndex>, Span>;
inline TaskIndex captured(TaskIndex transfer) { return -1 - transfer; }
inline TaskIndex delivered(TaskIndex transfer) {
  return std::numeric_limits<TaskIndex>::max() - transfer;
}

enum class Copies : std::uint8_t { without, with };

inline Spans spans_of(const model::RunRecorder& recorder, Copies copies = Copies::without) {
  Spans spans;
  for (const Span& span : recorder.trace().spans) {
    const TaskIndex key = span.kind == TaskKind::capture   ? captured(span.task)
                          : span.kind == TaskKind::deliver ? delivered(span.task)
                                                           : span.task;
    if (key != span.task && copies == Copies::without) continue;
    spans[{span.step, key}] = span;
  }
  return spans;
}

inline Spans simulated(const model::Cluster& cluster, const model::CostModel& costs,
                       model::Steps& steps, Copies copies = Copies::without) {
  model::RunRecorder recorder(cluster, 0, true);
  replay(cluster, costs, steps, recorder);
  return spans_of(recorder, copies);
}

inline Spans simulated(const model::Cluster& cluster, TaskGraph graph) {
  GraphSteps steps({std::move(graph)});
  return simulated(cluster, free_costs(cluster), steps);
}

inline Spans analytic(const model::Cluster& cluster, const model::CostModel& costs,
                      model::Steps& steps, Copies copies = Copies::without) {
  model::RunRecorder recorder(cluster, 0, true);
  model::evaluate_analytic(cluster, costs, steps, recorder);
  return spans_of(recorder, copies);
}

// When the last task ends.
inline double makespan(const Spans& spans) {
  double end = 0.0;
  for (const auto& [id, span] : spans) end = std::max(end, span.end);
  return end;
}

}  // namespace tandem::sim::testing
