#pragma once

// The analytic evaluator: longest path over lanes and dependencies, no contention on links.

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/predict/cost_model.hpp"
#include "model/report/trace.hpp"

namespace tandem::model {

using Channel = std::pair<DeviceIndex, DeviceIndex>;  // sender, receiver

// Steps of one run, in order, as every evaluator and the executor's recorder consume them.
class Steps {
 public:
  virtual ~Steps() = default;
  [[nodiscard]] virtual std::int32_t count() const = 0;
  // The graph of step `i`, called with i = 0, 1, ..., count() - 1 in order. The reference is valid
  // until the next call; the same object may come back, advanced.
  virtual const TaskGraph& graph(std::int32_t i) = 0;
  // Whether graph() may be called in any order.
  [[nodiscard]] virtual bool any_order() const { return false; }
  // The channels that its graphs send on, each once and ascending, where that is known before they
  // are asked for: links that limit none of them need not be simulated.
  [[nodiscard]] virtual std::optional<std::vector<Channel>> channels() { return std::nullopt; }
};

// The channels that `graphs` send on, each once and ascending.
[[nodiscard]] std::vector<Channel> channels_of(std::span<const TaskGraph* const> graphs);

// A run of one step. `graph` must outlive it.
class OneStep : public Steps {
 public:
  explicit OneStep(const TaskGraph& graph) : graph_(&graph) {}
  [[nodiscard]] std::int32_t count() const override { return 1; }
  const TaskGraph& graph(std::int32_t /*i*/) override { return *graph_; }
  [[nodiscard]] std::optional<std::vector<Channel>> channels() override {
    return channels_of({&graph_, 1});
  }

 private:
  const TaskGraph* graph_;
};

// Replays `steps` on idle, infinitely shareable links and records every span into `recorder`: the
// actions of each step's Program (model/predict/program.hpp), in its order.
//   cpu, disk: start = max(lane free, dependencies and awaited events done)
//              end = start + lane_time, of a capture or delivery copy_time
//              stall = start - what it would have been without the loads it depends on
//   message:   start = max(lane free, captured; of a relay: what it passes on has arrived)
//              the channel is free at start + message_overhead + bytes / route bandwidth; done one
//              route latency later
// Exact where nothing contends for a link; a lower bound on the contended time otherwise.
// Throws logic_error for a task that it has no time for.
void evaluate_analytic(const Cluster& cluster, const CostModel& costs, Steps& steps,
                       RunRecorder& recorder);

// Evaluates a run that `scheduler` drives, with as many steps in flight as it likes; they are
// submitted to `recorder`. The epilogue of a step is taken up by its lane when the last of what it
// depends on outside the epilogue is done, after the steps submitted until then. Times are those of
// evaluate_analytic.
void evaluate_scheduled(const Cluster& cluster, const CostModel& costs, Scheduler& scheduler,
                        GraphSource& graphs, RunRecorder& recorder);

// Makes the metrics of evaluate_analytic, up to rounding, from as few evaluated steps as show what
// the others are (model/predict/step_extrapolation.hpp). Records no spans. Does as
// evaluate_analytic where `steps` do not take any order.
void extrapolate_analytic(const Cluster& cluster, const CostModel& costs, Steps& steps,
                          RunRecorder& recorder);

}  // namespace tandem::model
