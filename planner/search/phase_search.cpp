#include "planner/search/phase_search.hpp"

#include <optional>
#include <utility>

#include "model/base/error.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
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

}  // namespace

std::variant<Plan, Infeasible> make_phase_plan(Request request) {
  const Objective objective = std::exchange(request.objective, Objective::request);
  require(objective == Objective::ttft || objective == Objective::latency,
          "make_phase_plan: of a phase");
  auto answer = make_plan(request);
  if (std::holds_alternative<Infeasible>(answer)) return answer;
  // Its caches are parted for this very prompt.
  if (find_strategy(request.strategy).sharding.splits_positions() || request.sparse) return answer;
  Plan& whole = std::get<Plan>(answer);
  const double time = predicted_time(whole, objective, request.evaluate);
  const std::optional<Workload> phase = phase_of(request.workload, objective);
  if (!phase || search_ended()) return answer;
  request.capacity = larger(request.capacity, request.workload.capacity());
  request.workload = *phase;
  auto other = make_plan(request);
  if (std::holds_alternative<Infeasible>(other)) return answer;
  std::optional<Plan> better = widened(std::get<Plan>(std::move(other)), whole, objective);
  if (better && predicted_time(*better, objective, request.evaluate) < time * kBetter)
    return *std::move(better);
  return answer;
}

}  // namespace tandem::planner
