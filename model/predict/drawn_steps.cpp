#include "model/predict/drawn_steps.hpp"

#include <algorithm>

#include "model/base/error.hpp"

namespace tandem::model {

DrawnTimes DrawnSteps::run(const TaskGraph& graph) {
  update_costs(graph);
  done_.resize(cost_.size());
  made_.resize(program_->events().size());
  const auto outcome = static_cast<std::size_t>(outcome_of(*program_, master_));
  DrawnTimes times{};
  for (std::size_t part = 0; part < kParts; ++part) {
    run_part(part);
    std::ranges::copy(done_[outcome], times.begin() + static_cast<std::ptrdiff_t>(part * kWidth));
    for (std::size_t e = 0; e < made_.size(); ++e)
      made_[e][part] = done_[static_cast<std::size_t>(program_->events()[e])];
  }
  std::swap(events_, made_);
  return times;
}

void DrawnSteps::restart() {
  for (auto& parts : free_) parts = {};
  events_.clear();
}

void DrawnSteps::run_part(std::size_t part) {
  const auto follow = [](Part& start, const Part& other) {
    for (std::size_t j = 0; j < kWidth; ++j) start[j] = std::max(start[j], other[j]);
  };
  for (std::size_t i = 0; i < cost_.size(); ++i) {
    const Cost& cost = cost_[i];
    Part& lane_free = free_[cost.lane][part];
    Part start = lane_free;
    const auto action = static_cast<ActionIndex>(i);
    for (const ActionIndex d : program_->dependencies(action))
      follow(start, done_[static_cast<std::size_t>(d)]);
    if (!events_.empty()) {
      for (const std::int32_t event : program_->awaited_events(action))
        follow(start, events_.at(static_cast<std::size_t>(event))[part]);
    }
    const double* const factors = cost.factors + part * kWidth;
    Part& done = done_[i];
    for (std::size_t j = 0; j < kWidth; ++j) {
      lane_free[j] = start[j] + (cost.drawn_s * factors[j] + cost.fixed_s);
      done[j] = lane_free[j] + cost.flight_s;
    }
  }
}

// Only attention depends on `past`; the rest is kept while the graph's structure is the same.
void DrawnSteps::update_costs(const TaskGraph& graph) {
  if (program_ && graph.structure() == structure_) {
    for (const std::size_t i : attends_) cost_[i] = cost_of(graph, program_->actions()[i]);
    return;
  }
  structure_ = graph.structure();
  program_ = std::make_unique<const Program>(graph);
  attends_.clear();
  cost_.clear();
  cost_.reserve(program_->actions().size());
  for (const LaneAction& action : program_->actions()) {
    if (action.kind == TaskKind::attend) attends_.push_back(cost_.size());
    cost_.push_back(cost_of(graph, action));
  }
}

DrawnSteps::Cost DrawnSteps::cost_of(const TaskGraph& graph, const LaneAction& action) {
  const ActionCost own = action_cost(cluster_, costs_, graph, action);
  const TaskKind kind = action.lane == LaneKind::disk ? TaskKind::load : action.kind;
  Cost cost{.lane = lane_of(action),
            .factors = draws_.of(action.device, kind).data(),
            .drawn_s = own.seconds};
  if (action.lane == LaneKind::channel) {
    const Route& route = cluster_.route(action.device, action.peer);
    cost.fixed_s = (Bytes{own.bytes} / route.bandwidth).value();
    cost.flight_s = route.latency.value();
  }
  return cost;
}

std::size_t DrawnSteps::lane_of(const LaneAction& action) {
  // As in the analytic evaluator: a channel's receiver is at least 0.
  const std::int64_t what = action.lane == LaneKind::channel ? std::int64_t{action.peer}
                            : action.lane == LaneKind::cpu   ? -1
                                                             : -2;
  const auto [lane, is_new] =
      lanes_.try_emplace((std::int64_t{action.device} << 32) + what, free_.size());
  if (is_new) free_.emplace_back();
  return lane->second;
}

}  // namespace tandem::model
