#pragma once

// Task graphs by the structure of their batch, lowered on first use.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <utility>
#include <vector>

#include "model/graph/scheduler.hpp"
#include "model/predict/analytic.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

class GraphCache : public model::GraphSource {
 public:
  static constexpr std::size_t kMost = 32;  // cached structures; the least recently used goes first
  // `plan` must outlive this. `forget` is called with each graph before it is evicted.
  explicit GraphCache(const Plan& plan,
                      std::function<void(const model::TaskGraph&)> forget = nullptr)
      : plan_(&plan), forget_(std::move(forget)) {}

  // Rows, sampled rows, owner and partitioned positions of each segment of a batch; without places
  // -1 and 0.
  using Structure = std::vector<std::array<std::int32_t, 4>>;
  [[nodiscard]] static Structure structure_of(const model::Batch& batch);

  const model::TaskGraph& graph_of(const model::Batch& batch) override;

 private:
  const Plan* plan_;
  std::function<void(const model::TaskGraph&)> forget_;
  std::list<std::pair<Structure, model::TaskGraph>> graphs_;  // most recently used first
};

// Recorded steps, in order.
class ScheduledSteps : public model::Steps {
 public:
  // `plan` must outlive this.
  ScheduledSteps(const Plan& plan, std::vector<model::ScheduledStep> steps)
      : steps_(std::move(steps)), graphs_(plan) {}
  [[nodiscard]] std::int32_t count() const override {
    return static_cast<std::int32_t>(steps_.size());
  }
  const model::TaskGraph& graph(std::int32_t i) override {
    return graphs_.graph_of(steps_.at(static_cast<std::size_t>(i)).batch);
  }
  [[nodiscard]] bool any_order() const override { return true; }

 private:
  std::vector<model::ScheduledStep> steps_;
  GraphCache graphs_;
};

}  // namespace tandem::planner
