#include "planner/search/extrapolation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

namespace {

using model::TaskKind;

// From so many rows on, matrix products are compute-bound on common processors.
constexpr double kComputeBound = 64.0;
constexpr std::array kProducts{TaskKind::project_qkv, TaskKind::project_out, TaskKind::ffn_up,
                               TaskKind::ffn_down};

// The most rows that all products of weights in these formats were measured with.
double measured_rows(const model::DeviceProfile& profile, const model::Transformer& transformer) {
  double rows = kComputeBound;
  for (const model::WeightFormat format : transformer.formats_used()) {
    for (const TaskKind kind : kProducts) {
      const model::KindRate* const rate = profile.rate_of(kind, format);
      if (rate != nullptr) rows = std::min(rows, rate->points.back().intensity);
    }
  }
  return rows;
}

}  // namespace

std::string extrapolation_remark(const Plan& plan) {
  const auto most = static_cast<double>(plan.reserved().rows);
  std::string names;
  bool several = false;
  double least = kComputeBound;
  for (std::size_t d = 0; d < plan.profiles.size(); ++d) {
    if (!plan.profiles[d].measured()) continue;
    const double rows = measured_rows(plan.profiles[d], plan.model);
    if (rows >= std::min(most, kComputeBound)) continue;
    several = several || !names.empty();
    names += (names.empty() ? "'" : ", '") + plan.cluster.devices()[d].name + "'";
    least = std::min(least, rows);
  }
  if (names.empty()) return "";
  return (several ? "devices " : "device ") + names + ": measured with prompts of at most " +
         std::to_string(std::lround(least)) + (least < 2.0 ? " token" : " tokens") +
         ", but steps have up to " + std::to_string(plan.reserved().rows) +
         ": the predicted time to first token is a guess, probably far too long; measure the "
         "profile again with more --seconds";
}

void check_rates(const Plan& plan) {
  const model::CostModel costs = plan.cost_model();
  const Strategy& strategy = find_strategy(plan.strategy);
  std::vector<model::Batch> steps{prompt_batch(plan.workload)};
  if (plan.workload.steps() > 1)
    steps.push_back(decode_batch(static_cast<std::int32_t>(plan.workload.prompt_tokens)));
  for (const model::Batch& step : steps) {
    const model::TaskGraph graph = strategy.lower(plan, step);
    for (const model::Task& task : graph.tasks()) {
      if (model::may_lack_rate(task.kind)) (void)costs.compute_time(step, task);
    }
  }
}

}  // namespace tandem::planner
