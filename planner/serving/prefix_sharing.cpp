#include "planner/serving/prefix_sharing.hpp"

#include <algorithm>

#include "model/report/comparability.hpp"
#include "planner/plan/plan.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

std::string prefix_refusal(const Plan& plan, std::span<const InferenceRequest> requests) {
  if (!plan.model.architecture().generates())
    return "the encoder " + plan.model.name + " has no cache";
  using enum KvCache;
  const Sharding& sharding = find_strategy(plan.strategy).sharding;
  // A prompt's rows are elsewhere, too, while it is read.
  if ((sharding.cache == at_master && !sharding.is_local()) || sharding.cache == by_position)
    return "strategy '" + plan.strategy +
           "' does not have a prompt's cache on the devices that read the next one";
  for (const InferenceRequest& request : requests) {
    if (plan.model.rotates_long(request.positions()))
      return "request '" + request.id + "' of " + std::to_string(request.positions()) +
             " positions is rotated by other factors than shorter ones";
  }
  return {};
}

bool states_prefixes(std::span<const InferenceRequest> requests) {
  return std::ranges::any_of(
      requests, [](const InferenceRequest& request) { return !request.prefix.empty(); });
}

void set_prefix_hits(model::Result& result) {
  const auto lengths = model::request_lengths(result);
  double prompts = 0.0;
  double cached = 0.0;
  for (const model::RequestResult& request : result.requests) {
    prompts += static_cast<double>(lengths.at(request.id).prompt);
    cached += static_cast<double>(request.cached_tokens);
  }
  result.prefix_hit_rate = prompts > 0.0 ? cached / prompts : 0.0;
}

}  // namespace tandem::planner
