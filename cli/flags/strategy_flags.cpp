#include "cli/flags/strategy_flags.hpp"

#include "cli/flags/plan_flags.hpp"
#include "cli/flags/plan_workload.hpp"
#include "model/base/error.hpp"
#include "planner/strategy/common/stages.hpp"

namespace tandem::cli {

StrategyFlags strategy_flags(const Options& options, const planner::Strategy& chosen,
                             const std::string& name) {
  const std::string undivided = "with strategy '" + name + "'";
  if (!chosen.sharding.has_partition())
    options.refuse({"partition"}, undivided + ", which does not split the model");
  std::string groups = options.text_or("groups", "none");
  if (groups == "none") groups.clear();
  refuse_sums(options, chosen);
  if (!chosen.sharding.splits_layers())
    options.refuse({"rounds", "groups"}, undivided + ", which has no stages to go round");
  if (groups.empty()) options.refuse({"group-strategy"}, "without '--groups'");
  if (!groups.empty() && rounds(options).value_or(1) > 1)
    throw Usage("flag '--rounds': " + options.text_or("rounds", "") + " with '--groups " + groups +
                "', whose stages a step passes once; expected '--rounds 1', or leave '--groups' "
                "out");
  const std::string of_groups = options.choice_or("group-strategy", "tensor", {"tensor", "galaxy"});
  const bool galaxy_groups = of_groups == planner::kGalaxyGroups;
  const std::optional<planner::DecodeMoves> moves = moves_of(options, chosen);
  const std::string with_split = planner::with_split_weights(chosen);
  if (with_split.empty())
    options.refuse({"sp"}, undivided + ", which parts a prompt's rows in no second way");
  const std::string sp = options.choice_or("sp", "ntp", {"ntp", "tp", "auto"});
  if (sp != "ntp")
    options.refuse({"decode-moves", "max-loss", "max-ttft"},
                   "with '--sp " + sp + "', expected ntp, whose rows travel");
  if (sp == "auto")
    options.refuse({"levels", "drop", "levels-overlap"},
                   "with '--sp auto', expected ntp or tp, whose levels have rows in other orders");
  if (!chosen.sharding.gather_weights)
    options.refuse({"gather-weights"}, undivided + ", whose weights stay where they are");
  const bool gathers = options.has("gather-weights");
  if (sp == "tp")
    options.refuse({"gather-weights"}, "with '--sp tp', whose weights stay where they are");
  if (gathers && chosen.sharding.measures_losses())
    options.refuse({"max-loss"}, "with '--gather-weights', expected a prompt that attends to all");
  if (gathers)
    options.refuse({"levels", "drop", "levels-overlap", "max-ttft"},
                   "with '--gather-weights', expected a prompt that attends to all");
  if (!chosen.sharding.exchanges_rows() && !galaxy_groups)
    options.refuse({"tiles"}, undivided + ", which has none");
  refuse_streaming(options, chosen);
  const bool any_sums =
      options.text_or("allreduce", planner::kAutoAllreduce) == planner::kAutoAllreduce;
  // Of a strategy, its usual one, beside which the search weighs others.
  const std::string collective = !any_sums        ? options.text_or("allreduce", "")
                                 : groups.empty() ? chosen.allreduce
                                                  : std::string(planner::kAutoAllreduce);
  if (chosen.sharding.joins_prompts_only() && collective.find(',') != std::string::npos)
    throw Usage("flag '--allreduce': '" + collective + "' " + undivided +
                ", whose plans have one; expected one collective");
  const bool is_auto =
      options.text_or("partition", std::string(planner::kAutoPartition)) == planner::kAutoPartition;
  const bool has_layers = chosen.sharding.splits_layers();
  return {.groups = groups,
          .galaxy_groups = galaxy_groups,
          .moves = moves,
          .with_split = with_split,
          .sp = sp,
          .gathers = gathers,
          .collective = collective,
          // Groups do not follow a given partition.
          .open = {.parts = is_auto,
                   .levels = options.text_or("levels", "none") == "auto",
                   .stages = has_layers && is_auto && !options.has("groups"),
                   .moves = !options.has("decode-moves"),
                   .sums = any_sums,
                   .at_length = true,
                   .tiles = true},
          .rounds = options.has("rounds") || !has_layers || !groups.empty() ? rounds(options)
                                                                            : std::nullopt,
          .token_ffn = token_ffn_of(options, chosen)};
}

void check_stages(const Options& options, const planner::Plan& plan) {
  if (options.text("groups") && options.text("allreduce") && !planner::joins(plan))
    throw Usage("flag '--allreduce' has no effect with groups of one device each ('" +
                options.text_or("groups", "") +
                "'), which sum nothing; leave it out, or name larger groups");
  const std::int64_t wanted = rounds(options).value_or(1);
  const auto found = static_cast<std::int64_t>(planner::round_count(plan));
  if (wanted <= found) return;
  throw Usage("flag '--rounds': " + std::to_string(wanted) + ", but with these shares of the " +
              std::to_string(plan.model.layers) + " layers no device has more than " +
              std::to_string(found) + (found == 1 ? " run" : " runs") +
              " of them; expected at most as many; give '--rounds " + std::to_string(found) +
              "', '--rounds auto' or other shares (--partition)");
}

void check_in_flight(const Options& options, std::int64_t steps, const planner::Request& request,
                     bool any) {
  if (steps <= 1) return;
  if (!any && !planner::find_strategy(request.strategy).sharding.splits_layers())
    throw Usage("flag '--in-flight': with strategy '" + request.strategy +
                "' all devices work on one step; expected 1, or strategy " + with_stages());
  if (request.window.blocks.value_or(0) > 0)
    throw Usage(
        "flag '--in-flight': weights that stream through '--window' come in the order of steps; "
        "expected '--in-flight 1', or '--window all'");
  options.refuse({"retain", "release"}, "with '--in-flight " + std::to_string(steps) +
                                            "', whose weights all stay in memory");
  if (options.has("rounds") && request.rounds != 1)
    throw Usage(
        "flag '--in-flight': with '--rounds' each step goes round several times; expected "
        "'--in-flight 1', or '--rounds 1'");
}

std::string only_whole(const planner::Request& request, const StrategyFlags& flags, bool bounded) {
  if (flags.sp == "auto") return "with '--sp auto' prompts are read whole";
  if (!flags.moves) return "with '--decode-moves auto' prompts are read whole";
  if (request.sparse || bounded) return "levels attend within a whole prompt";
  if (request.rounds.value_or(1) > 1) return "steps that go round several times are whole prompts";
  if (request.strategy != kAutoStrategy &&
      planner::find_strategy(request.strategy).sharding.splits_positions())
    return "strategy '" + request.strategy +
           "' shares out the positions of a prompt of one request before it is read, so it reads "
           "it whole; with '--samples' or '--workload' it reads prompts in chunks, each on one "
           "device";
  if (request.window.blocks.value_or(0) > 0)
    return "weights that stream are read once for each chunk";
  return "";
}

}  // namespace tandem::cli
