#include <optional>
#include <utility>

#include "model/base/error.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/axes.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

// Returns the phase as a request of its own; nothing if it is the whole request.
std::optional<Workload> phase_of(const Workload& whole, Objective objective) {
  if (objective == Objective::ttft) {
    if (whole.new_tokens <= 1) return std::nullopt;
    return Workload{.prompt_tokens = whole.prompt_tokens, .new_tokens = 1};
  }
  if (whole.prompt_tokens == 1) return std::nullopt;
  return Workload{.prompt_tokens = 1, .new_tokens = whole.prompt_tokens + whole.new_tokens - 1};
}

// Returns `phase`, a plan of the phase alone, as a plan of `whole`'s request; nothing if it does
// not fit. The prompt's settings are unknown for a plan of new tokens: they stay as in `whole`.
std::optional<Plan> widened(Plan phase, const Plan& whole, Objective objective) {
  phase.workload = whole.workload;
  phase.capacity = whole.capacity;
  if (find_strategy(phase.strategy).sharding.joins_prompts_only()) {
    phase.allreduce = whole.allreduce;  // of prompts, for both phases
  } else if (objective == Objective::latency) {
    phase.tiles = whole.tiles;
    phase.allreduce.prompt = whole.allreduce.prompt;
  } else {
    phase.allreduce.decode = whole.allreduce.decode;
  }
  const std::vector<model::MemoryUse> memory = predicted_memory(phase);
  for (std::size_t d = 0; d < phase.devices.size(); ++d) {
    if (memory[d].total() > phase.cluster.devices()[d].memory.value()) return std::nullopt;
    phase.devices[d].memory = memory[d];
  }
  phase.validate();
  return phase;
}

bool phase_open(const Draft& draft) {
  const Objective objective = draft.request.objective;
  return objective == Objective::ttft || objective == Objective::latency;
}

void walk_phase(const Draft& draft, Alternatives& all) {
  const Request& request = draft.request;
  const Objective objective = request.objective;
  all.compare_by(
      [&](const Plan& plan) { return predicted_time(plan, objective, request.evaluate); });
  Draft next = draft;
  next.request.objective = Objective::request;
  all.offer("the whole request", next);
  if (all.best() == nullptr) return;
  // Its caches are parted for this very prompt.
  if (find_strategy(request.strategy).sharding.splits_positions() || request.sparse) return;
  check_objective(request.workload, objective);
  const std::optional<Workload> phase = phase_of(request.workload, objective);
  if (!phase) return;
  const Plan whole = *all.best();
  next.request.capacity = larger(request.capacity, request.workload.capacity());
  next.request.workload = *phase;
  all.offer("the phase alone", [&]() -> Found {
    Found found = all.plan(next);
    if (found.plan() == nullptr) return found;
    std::optional<Plan> plan = widened(std::get<Plan>(std::move(found.answer)), whole, objective);
    if (plan) {
      found.answer = *std::move(plan);
    } else {
      found.answer = Infeasible{"the whole request does not fit"};
    }
    return found;
  });
}

}  // namespace

const Axis& phase_axis() {
  static constexpr Axis axis{.name = "phase", .applies = phase_open, .walk = walk_phase};
  return axis;
}

}  // namespace tandem::planner
