#include "advice/message_saving.hpp"

#include "planner/memory/plan_storage.hpp"
#include "planner/serving/service_objective.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

constexpr double kWorthSaying = 0.01;

}  // namespace

std::optional<MessageSaving> message_saving(const planner::Plan& plan, const ServedWorkload* served,
                                            const model::Result& predicted,
                                            planner::Objective objective) {
  planner::Plan narrow = plan;
  narrow.wire = model::WireFormat::q8_0;
  if (plan.wire == narrow.wire || planner::sharding_of(plan).is_local() || plan.cluster.size() < 2)
    return std::nullopt;
  narrow = planner::with_predicted_memory(std::move(narrow));
  if (!planner::fits(narrow)) return std::nullopt;
  const double before = planner::service_time(predicted, objective);
  MessageSaving saving{.wire = narrow.wire,
                       .seconds = planner::service_time(predict_fairly(narrow, served), objective)};
  saving.part = 1.0 - saving.seconds / before;
  if (!(saving.part >= kWorthSaying)) return std::nullopt;
  return saving;
}

}  // namespace tandem::study
