#include "cli/flags/strategy_flags.hpp"

#include "cli/flags/plan_flags.hpp"
#include "model/base/error.hpp"

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
  if (gathers)
    options.refuse({"levels", "drop", "levels-overlap", "max-loss", "max-ttft"},
                   "with '--gather-weights', expected a prompt that attends to all");
  if (!chosen.sharding.exchanges_rows() && !galaxy_groups)
    options.refuse({"tiles"}, undivided + ", which has none");
  refuse_streaming(options, chosen);
  const bool any_sums =
      options.text_or("allreduce", planner::kAutoAllreduce) == planner::kAutoAllreduce;
  // The search weighs others, too.
  const bool has_usual = any_sums && (chosen.sharding.has_collective() || groups.empty());
  const std::string collective =
      has_usual ? chosen.allreduce : options.text_or("allreduce", chosen.allreduce);
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
                   .stages = has_layers && is_auto && !options.has("groups"),
                   .moves = !options.has("decode-moves"),
                   .sums = any_sums},
          .rounds = options.has("rounds") || !has_layers || !groups.empty() ? rounds(options)
                                                                            : std::nullopt,
          .token_ffn = token_ffn_of(options, chosen)};
}

std::string only_whole(const planner::Request& request, const StrategyFlags& flags, bool bounded) {
  if (flags.sp == "auto") return "with '--sp auto' prompts are read whole";
  if (!flags.moves) return "with '--decode-moves auto' prompts are read whole";
  if (request.sparse || bounded) return "levels attend within a whole prompt";
  if (request.rounds.value_or(1) > 1) return "steps that go round several times are whole prompts";
  if (request.strategy != kAutoStrategy &&
      planner::find_strategy(request.strategy).sharding.splits_positions())
    return "strategy '" + request.strategy + "' parts its caches by one whole prompt";
  if (request.window.blocks.value_or(0) > 0)
    return "weights that stream are read once for each chunk";
  return "";
}

}  // namespace tandem::cli
