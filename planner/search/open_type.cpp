#include "planner/search/open_type.hpp"

#include <utility>

#include "planner/memory/plan_storage.hpp"
#include "planner/search/affordable_types.hpp"
#include "planner/search/objective.hpp"

namespace tandem::planner {
namespace {

// The part of a time that a loss of one bit per byte is worth, where times are equal otherwise.
constexpr double kWorthOfBit = 1e-3;

}  // namespace

void offer_with_f32(const Draft& draft, Alternatives& all, std::string type, void (*widen)(Plan&)) {
  Found found = all.plan(draft);
  all.offer(std::move(type), [&] { return found; });
  if (found.plan() == nullptr) return;
  all.offer("f32", [&]() -> Found {
    Plan whole = *found.plan();
    widen(whole);
    whole = with_predicted_memory(std::move(whole));
    if (!fits(whole)) return {.answer = Infeasible{"it does not fit"}};
    return {.answer = std::move(whole), .decisions = found.decisions};
  });
}

Alternatives::Clock budget_clock(const Request& request) {
  return [&request](const Plan& plan) {
    return predicted_time(plan, request.objective, request.evaluate) *
           (1.0 + kWorthOfBit * losses_of(plan, request.budget->prices).total());
  };
}

}  // namespace tandem::planner
