#include <algorithm>
#include <string>

#include "planner/memory/plan_storage.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/axes.hpp"
#include "planner/search/objective.hpp"
#include "planner/search/outline.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

// Whether a link is faster than the copy of a sender: rounding the sender's own numbers, too, may
// then cost more than the bytes that do not travel (model::copy_size).
bool has_faster_link(const Plan& outline) {
  const model::DeviceIndex devices = outline.cluster.size();
  for (model::DeviceIndex from = 0; from < devices; ++from) {
    const model::KindRate& copy = outline.profiles[static_cast<std::size_t>(from)]
                                      .rate[static_cast<std::size_t>(model::TaskKind::capture)];
    for (model::DeviceIndex to = 0; to < devices; ++to) {
      if (from == to) continue;
      const double link = 1.0 / outline.cluster.route(from, to).bandwidth.value();
      if (link < model::task_seconds(copy, 1.0, 1.0) - copy.overhead_s - copy.row_s) return true;
    }
  }
  return false;
}

bool wire_open(const Draft& draft) {
  const Request& request = draft.request;
  return request.open.wire && request.wire != model::WireFormat::f32 &&
         !find_strategy(request.strategy).sharding.is_local() && has_faster_link(outline_of(draft));
}

void walk_wire(const Draft& draft, Alternatives& all) {
  Draft next = draft;
  next.request.open.wire = false;
  const Request& request = next.request;
  all.compare_by(
      [&](const Plan& plan) { return predicted_time(plan, request.objective, request.evaluate); });
  all.offer(std::string(to_string(request.wire)), next);
  if (all.best() == nullptr) return;
  all.offer("f32", [&]() -> Found {
    Plan whole = *all.best();
    whole.wire = model::WireFormat::f32;
    whole = with_predicted_memory(std::move(whole));
    if (!fits(whole)) return {.answer = Infeasible{"its messages do not fit"}};
    return {.answer = std::move(whole)};
  });
}

}  // namespace

const Axis& wire_axis() {
  static constexpr Axis axis{.name = "messages", .applies = wire_open, .walk = walk_wire};
  return axis;
}

}  // namespace tandem::planner
