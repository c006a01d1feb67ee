#include "planner/search/engine.hpp"

#include <utility>

#include "model/base/error.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"

namespace tandem::planner {

Found walk(const Draft& draft, Axes axes, const Leaf& leaf) {
  abandon_if_overdue();
  while (!axes.empty() && !axes.front()->applies(draft)) axes = axes.subspan(1);
  if (axes.empty()) return leaf(draft);
  Alternatives all(*axes.front(), axes.subspan(1), leaf);
  axes.front()->walk(draft, all);
  return std::move(all).found();
}

Alternatives::Alternatives(const Axis& axis, Axes below, Leaf leaf)
    : below_(below), leaf_(std::move(leaf)), decision_{.axis = axis.name} {}

Found Alternatives::plan(const Draft& draft) const { return walk(draft, below_, leaf_); }

double Alternatives::seconds_of(const Found& found) const {
  return found.seconds ? *found.seconds : clock_(*found.plan());
}

bool Alternatives::ended() const { return best() != nullptr && search_ended(); }

bool Alternatives::offer(std::string label, const Draft& draft) {
  return offer(std::move(label), [&] { return plan(draft); });
}

bool Alternatives::offer(std::string label, const Make& make, const Finish& finish) {
  if (ended()) return false;
  abandon_if_overdue();
  Found next = make();
  std::vector<Alternative>& known = decision_.alternatives;
  Alternative& one = known.emplace_back(Alternative{.label = std::move(label)});
  const Plan* const plan = next.plan();
  if (plan != nullptr && best() != nullptr) {
    if (*plan == *best()) return false;  // and takes as long
    Alternative& before = known[decision_.selected];
    if (!before.seconds) before.seconds = seconds_of(*best_);
    one.seconds = seconds_of(next);
    if (!(*one.seconds < *before.seconds * kBetter)) return false;
  }
  if (plan != nullptr && finish) next.answer = finish(std::get<Plan>(std::move(next.answer)));
  if (next.plan() == nullptr) {
    one.seconds.reset();
    one.reason = std::get<Infeasible>(next.answer).reason;
    if (best_) return false;
  }
  decision_.selected = known.size() - 1;
  best_ = std::move(next);
  return best() != nullptr;
}

Found Alternatives::found() && {
  require(best_.has_value(), "an axis offers at least one alternative");
  decision_.is_cut = ended();
  best_->decisions.insert(best_->decisions.begin(), std::move(decision_));
  return *std::move(best_);
}

}  // namespace tandem::planner
