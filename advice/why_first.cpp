#include <string>

#include "advice/choice.hpp"
#include "model/base/error.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"

namespace tandem::study {

using planner::Policy;
using planner::Strategy;

std::string why_first(const Choice& choice) {
  constexpr double kSameTime = 1.0 - 1e-3;
  require(choice.contenders.size() > 1, "why_first: a runner-up");
  const Strategy& first = planner::find_strategy(choice.contenders[0].plan.strategy);
  const Strategy& second = planner::find_strategy(choice.contenders[1].plan.strategy);
  if (choice.contenders[1].seconds * kSameTime <= choice.contenders[0].seconds) {
    const auto devices = [&](std::size_t i) { return choice.contenders[i].plan.cluster.size(); };
    return "both take the same time, to 0.1%" +
           std::string(devices(0) < devices(1) ? ", and it needs fewer devices" : "");
  }
  const Policy* const policy = choice.contenders[0].policy;
  const bool many = policy != nullptr && policy->several();
  if (first.sharding.is_local())
    return "use one device: what the others would save is less than what messages to them take";
  if (first.sharding.splits_layers()) {
    if (planner::has_groups(choice.contenders[0].plan))
      return "devices near one another compute layers together, and groups send one message a step";
    if (planner::has_rounds(choice.contenders[0].plan))
      return "devices read their next layers from disk while the others compute";
    if (choice.contenders[0].chunk > 0 && choice.contenders[0].plan.cluster.size() > 1)
      return "devices work on different chunks of the prompt at the same time, and send one "
             "message a chunk";
    if (many)
      return "devices work on different requests at the same time, and send one message a step";
    return second.sharding.is_local()
               ? "the other devices have faster layers, or room, and one message each is cheap"
               : "devices work one after the other, but each sends one message a step "
                 "instead of some in every layer";
  }
  if (first.sharding.divides_work())
    return "every device has room for the whole model, or streams it once for all its rows, so a "
           "prompt's devices exchange no partial sums";
  if (first.sharding.splits_positions())
    return "every device has room for the whole model, and queries travel to the keys, which stay";
  if (first.sharding.replicates())
    return "every device has room for the whole model, so only keys and values travel";
  if (second.sharding.is_local() || second.sharding.splits_layers())
    return "all devices compute at once, which saves more than their messages take";
  if (choice.contenders[0].plan.tiles > 0)
    return "a prompt's messages travel while other rows are computed";
  if (first.sharding.splits_rows()) return "norms and residual adds of a prompt are split, too";
  if (second.sharding.splits_positions())
    return "new tokens wait for no queries on their way to keys elsewhere and back";
  if (second.sharding.joins_prompts_only())
    return "new tokens are computed by all devices, not by the master alone";
  return "sums of all rows at once take less than parts of them, with products cut into tiles";
}

}  // namespace tandem::study
