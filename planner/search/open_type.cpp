#include "planner/search/open_type.hpp"

#include <utility>

#include "planner/memory/plan_storage.hpp"

namespace tandem::planner {

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

}  // namespace tandem::planner
