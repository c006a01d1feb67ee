#include <algorithm>
#include <string>
#include <utility>

#include "planner/search/affordable_types.hpp"
#include "planner/search/axes.hpp"
#include "planner/search/default_types.hpp"
#include "planner/search/objective.hpp"
#include "planner/search/open_type.hpp"
#include "planner/search/outline.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

// Whether a link is faster than the copies of a device: rounding the sender's own numbers, too, may
// then cost more than the bytes that do not travel (model::copy_size).
bool has_faster_link(const Plan& outline) {
  double slowest_s = 0.0;  // of a byte
  for (const model::DeviceProfile& profile : outline.profiles) {
    const model::KindRate& copy = profile.rate[static_cast<std::size_t>(model::TaskKind::capture)];
    slowest_s = std::max(slowest_s, task_seconds(copy, 1.0, 1.0) - task_seconds(copy, 0.0, 1.0));
  }
  return std::ranges::any_of(outline.cluster.links(), [&](const model::Link& link) {
    return 1.0 / link.bandwidth.value() < slowest_s;
  });
}

bool wire_open(const Draft& draft) {
  const Request& request = draft.request;
  if (request.budget) return request.open.wire;
  return request.open.wire && request.wire != model::WireFormat::f32 &&
         !find_strategy(request.strategy).sharding.is_local() && has_faster_link(outline_of(draft));
}

void walk_affordable_wires(const Draft& draft, Alternatives& all) {
  all.compare_by(budget_clock(draft.request));
  for (const model::WireFormat format : affordable_wires(draft.request)) {
    Draft next = draft;
    next.request.open.wire = false;
    next.request.wire = format;
    next.request = with_default_types(std::move(next.request));
    all.offer(std::string(to_string(format)), next);
  }
}

void walk_wire(const Draft& draft, Alternatives& all) {
  if (draft.request.budget) return walk_affordable_wires(draft, all);
  Draft next = draft;
  next.request.open.wire = false;
  const Request& request = next.request;
  all.compare_by(
      [&](const Plan& plan) { return predicted_time(plan, request.objective, request.evaluate); });
  offer_with_f32(next, all, std::string(to_string(request.wire)),
                 [](Plan& plan) { plan.wire = model::WireFormat::f32; });
}

}  // namespace

const Axis& wire_axis() {
  static constexpr Axis axis{.name = "messages", .applies = wire_open, .walk = walk_wire};
  return axis;
}

}  // namespace tandem::planner
