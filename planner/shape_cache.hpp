#pragma once

// Graphs by the shape of their batch, made when they are first asked for.

#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "model/scheduler.hpp"
#include "planner/plan.hpp"

namespace tandem::planner {

class ShapeCache : public model::GraphSource {
 public:
  static constexpr std::size_t kMost = 32;  // shapes that are kept, the last ones asked for
  // `plan` must outlive this.
  explicit ShapeCache(const Plan& plan) : plan_(&plan) {}

  const model::TaskGraph& graph_of(const model::Batch& batch) override;

 private:
  using Shape = std::vector<std::pair<std::int32_t, std::int32_t>>;  // rows and sampled rows
  const Plan* plan_;
  std::list<std::pair<Shape, model::TaskGraph>> graphs_;  // the last one asked for first
};

}  // namespace tandem::planner
