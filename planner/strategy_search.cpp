#include "planner/strategy_search.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/error.hpp"
#include "planner/lowering.hpp"

namespace tandem::planner {

StrategyChoice choose_strategy(Request request) {
  StrategyChoice choice;
  request.partition = std::string(kAutoPartition);
  request.tiles.reset();
  for (const Strategy& strategy : strategies()) {
    if (request.window.blocks.value_or(0) > 0 && !strategy.streams) {
      choice.without.emplace_back(strategy.name, "streams no weights");
      continue;
    }
    request.strategy = strategy.name;
    // Sums are chosen before tiles, by trials of a few steps: those that the strategy has by itself
    // may still be faster.
    std::vector<std::optional<std::string>> sums{std::nullopt};
    if (strategy.joins()) sums.emplace_back(kAutoAllreduce);
    std::optional<Contender> best;
    std::string reason;
    for (const std::optional<std::string>& one : sums) {
      request.allreduce = one;
      auto answer = make_plan(request);
      if (const auto* const no = std::get_if<Infeasible>(&answer)) {
        reason = no->reason.substr(0, no->reason.find('\n'));
        continue;
      }
      Plan& plan = std::get<Plan>(answer);
      if (best && plan == best->plan) continue;
      const double seconds = predicted_request_time(plan, request.evaluate);
      if (!best || seconds < best->seconds) best = {.plan = std::move(plan), .seconds = seconds};
    }
    if (best) {
      choice.contenders.push_back(*std::move(best));
    } else {
      choice.without.emplace_back(strategy.name, reason);
    }
  }
  std::stable_sort(choice.contenders.begin(), choice.contenders.end(),
                   [](const Contender& a, const Contender& b) { return a.seconds < b.seconds; });
  return choice;
}

std::string why_first(const StrategyChoice& choice) {
  require(choice.contenders.size() > 1, "why_first: a runner-up");
  const Strategy& first = find_strategy(choice.contenders[0].plan.strategy);
  const Strategy& second = find_strategy(choice.contenders[1].plan.strategy);
  const auto alone = [](const Strategy& s) {
    return !s.splits && !s.splits_layers && !s.replicates;
  };
  if (alone(first))
    return "use one device: what the others would save is less than what messages to them take";
  if (first.splits_layers) {
    return alone(second)
               ? "the other devices have faster layers, or room, and one message each is cheap"
               : "devices work one after the other, but each sends one message a step "
                 "instead of some in every layer";
  }
  if (first.replicates)
    return "every device has room for the whole model, so only keys and values travel";
  if (alone(second) || second.splits_layers)
    return "all devices compute at once, which saves more than their messages take";
  if (choice.contenders[0].plan.tiles > 0)
    return "a prompt's messages travel while other rows are computed";
  if (first.parts_rows) return "norms and residual adds of a prompt are split, too";
  if (second.replicates) return "new tokens are computed by all devices, not by the master alone";
  return "sums of all rows at once take less than parts of them, with products cut into tiles";
}

}  // namespace tandem::planner
