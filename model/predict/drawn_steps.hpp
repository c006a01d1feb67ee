#pragma once

// Steps of a run under many draws of the devices' errors at once.

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/predict/cost_model.hpp"
#include "model/predict/factor_draws.hpp"
#include "model/predict/program.hpp"

namespace tandem::model {

// By draw of FactorDraws.
using DrawnTimes = std::array<double, FactorDraws::kCount>;

// The analytic evaluator (evaluate_analytic) in which each draw multiplies the time of every task,
// copy, message overhead and read of a disk by the draw's factor of its device and kind. What the
// links take, bytes / bandwidth and latency, is the same in all draws, and so is the order of
// tasks. Copies on write are left out. Draw 0 is what evaluate_analytic says. Its parameters must
// outlive it.
class DrawnSteps {
 public:
  DrawnSteps(const Cluster& cluster, const CostModel& costs, const FactorDraws& draws,
             DeviceIndex master)
      : cluster_(cluster), costs_(costs), draws_(draws), master_(master) {}

  // Evaluates a step that follows those before. Returns when its outcome (outcome_of) is known, in
  // seconds since the first step began.
  [[nodiscard]] DrawnTimes run(const TaskGraph& graph);
  // The next step is the first again.
  void restart();

 private:
  // So many draws are evaluated at a time: a vector register or some of them, and little memory for
  // each action.
  static constexpr std::size_t kWidth = 8;
  static constexpr std::size_t kParts = FactorDraws::kCount / kWidth;
  static_assert(FactorDraws::kCount % kWidth == 0);
  using Part = std::array<double, kWidth>;

  struct Cost {
    std::size_t lane = 0;
    const double* factors = nullptr;  // of every draw
    double drawn_s = 0.0;             // is multiplied by them
    double fixed_s = 0.0;             // occupies the lane, too
    double flight_s = 0.0;
  };

  void update_costs(const TaskGraph& graph);
  [[nodiscard]] Cost cost_of(const TaskGraph& graph, const LaneAction& action);
  [[nodiscard]] std::size_t lane_of(const LaneAction& action);
  void run_part(std::size_t part);

  const Cluster& cluster_;
  const CostModel& costs_;
  const FactorDraws& draws_;
  DeviceIndex master_;
  std::unordered_map<std::int64_t, std::size_t> lanes_{};
  std::vector<std::array<Part, kParts>> free_{};    // by lane: when it is free
  std::vector<std::array<Part, kParts>> events_{};  // of the step before: when they were done
  std::vector<std::array<Part, kParts>> made_{};    // of this step
  std::vector<Part> done_{};                        // by action, of the part under way
  std::shared_ptr<const char> structure_{};
  std::unique_ptr<const Program> program_{};
  std::vector<Cost> cost_{};
  std::vector<std::size_t> attends_{};
};

}  // namespace tandem::model
