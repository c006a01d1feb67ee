#include "advice/message_saving.hpp"

#include <cmath>

#include "planner/memory/plan_storage.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

using planner::Objective;

constexpr double kWorthSaying = 0.01;

// The objective's seconds; not a number without new tokens.
double seconds_of(const model::Result& result, Objective objective) {
  const std::optional<double> rate = result.metrics.throughput_tokens_per_s;
  if (objective == Objective::throughput && rate) return 1.0 / *rate;
  if (objective == Objective::latency) {
    return result.metrics.token_latency
               ? result.metrics.token_latency->mean
               : model::latency_stats(result.metrics.token_latencies_s()).mean;
  }
  double sum = 0.0;
  for (const model::RequestResult& one : result.requests)
    sum += objective == Objective::ttft ? one.ttft_s : one.end_s - one.arrival_s;
  return sum / static_cast<double>(result.requests.size());
}

}  // namespace

std::optional<MessageSaving> message_saving(const planner::Plan& plan, const ServedWorkload* served,
                                            const model::Result& predicted, Objective objective) {
  planner::Plan narrow = plan;
  narrow.wire = model::WireFormat::q8_0;
  if (plan.wire == narrow.wire || planner::sharding_of(plan).is_local() || plan.cluster.size() < 2)
    return std::nullopt;
  narrow = planner::with_predicted_memory(std::move(narrow));
  if (!planner::fits(narrow)) return std::nullopt;
  const double before = seconds_of(predicted, objective);
  MessageSaving saving{.wire = narrow.wire,
                       .seconds = seconds_of(predict_fairly(narrow, served), objective)};
  saving.part = 1.0 - saving.seconds / before;
  if (!(saving.part >= kWorthSaying)) return std::nullopt;
  return saving;
}

}  // namespace tandem::study
