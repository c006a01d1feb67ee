#include "advice/free/fixed_plan.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "advice/free/other_devices.hpp"
#include "advice/plan_request.hpp"
#include "model/transformer/format_choice.hpp"
#include "planner/search/default_types.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/search/token_ffn.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"

namespace tandem::study {
namespace {

using planner::Objective;
using planner::Plan;
using planner::Request;
using planner::Sharding;

std::string sums_of(const Plan& plan) {
  const bool one = planner::sharding_of(plan).joins_prompts_only() ||
                   plan.allreduce.prompt == plan.allreduce.decode;
  return one ? plan.allreduce.prompt : plan.allreduce.prompt + "," + plan.allreduce.decode;
}

// The FFN of new tokens with one owner, as it is asked for.
std::string_view flag_of(planner::TokenFfn ffn) {
  switch (ffn) {
    case planner::TokenFfn::owner:
      return "owner";
    case planner::TokenFfn::shared:
      return "all";
    case planner::TokenFfn::automatic:
      break;
  }
  return "auto";
}

// Fixes by flags what `ask.request` has of `plan`, and leaves open what `tandem plan` searches
// without a flag: parts, rounds of stages and weights that are not gathered. `several`: the
// platform has more devices.
void add_flags(Ask& ask, const Plan& plan, bool several) {
  Request& request = ask.request;
  const Sharding& sharding = planner::sharding_of(plan);
  request.open_axes = {.parts = true, .at_length = true, .tiles = true};
  ask.set("strategy", plan.strategy);
  if (several) {
    std::string names;
    for (const model::Device& device : plan.cluster.devices())
      names += (names.empty() ? "" : ",") + device.name;
    ask.set("devices", names);
  }
  if (plan.master != 0)
    ask.set("master", plan.cluster.devices()[static_cast<std::size_t>(plan.master)].name);
  if (sharding.splits_layers()) {
    ask.set("groups", request.groups.empty() ? "none" : request.groups);
    if (request.groups.empty()) request.rounds.reset();
    if (!request.groups.empty() && !request.rounds) ask.set("rounds", "auto");
  }
  if (!request.group_strategy.empty()) ask.set("group-strategy", request.group_strategy);
  const bool sums = (sharding.has_collective() || !request.groups.empty()) && request.allreduce &&
                    (!sharding.shares_token_ffn() || request.token_ffn != planner::TokenFfn::owner);
  if (sums)
    ask.set("allreduce", *request.allreduce);
  else
    open_sums(request);
  if (request.tiles) ask.set("tiles", std::to_string(*request.tiles));
  const bool moves = sharding.splits_positions() && request.workload.steps() > 1;
  if (moves || request.decode_moves != planner::DecodeMoves::queries)
    ask.set("decode-moves", std::string(to_string(request.decode_moves)));
  if (sharding.shares_token_ffn() && request.workload.steps() > 1 &&
      request.token_ffn != planner::TokenFfn::automatic)
    ask.set("decode-ffn", std::string(flag_of(request.token_ffn)));
  if (request.gather_weights) ask.set("gather-weights");
}

// Flags of the search for the best strategy, and of choices that `plan`'s does not have.
void leave_out(Ask& ask, const Plan& plan) {
  const Sharding& sharding = planner::sharding_of(plan);
  ask.leave_out({"seconds", "evaluations"});
  if (sharding.is_local()) ask.leave_out({"wire-type"});
  if (!sharding.may_split_head()) ask.leave_out({"head"});
  if (!sharding.splits_layers()) ask.leave_out({"in-flight"});
  if (!ask.served) {
    if (sharding.is_local()) ask.leave_out({"objective"});
    return;
  }
  // With many requests only stages have an objective.
  Objective& objective = ask.request.objective;
  ask.leave_out({"objective"});
  if (!sharding.splits_layers() || objective != Objective::throughput)
    objective = Objective::request;
  else
    ask.set("objective", "throughput");
}

}  // namespace

Ask fixed_plan(const Question& asked, const Contender& chosen) {
  const Plan& plan = chosen.plan;
  const Sharding& sharding = planner::sharding_of(plan);
  Ask ask{.request = asked.request, .prompt = asked.prompt, .served = asked.served};
  Request& request = ask.request;
  const bool several = request.cluster.size() > plan.cluster.size();
  std::vector<bool> used;
  for (const model::Device& device : request.cluster.devices())
    used.push_back(std::ranges::find(plan.cluster.devices(), device.name, &model::Device::name) !=
                   plan.cluster.devices().end());
  request = planner::for_devices(std::move(request), used);
  request.strategy = plan.strategy;
  request.partition = std::string(planner::kAutoPartition);
  request.master = plan.cluster.devices()[static_cast<std::size_t>(plan.master)].name;
  request.model.formats = plan.model.formats;
  request.allreduce.reset();
  if (!plan.allreduce.prompt.empty()) request.allreduce = sums_of(plan);
  request.tiles.reset();
  request.decode_moves = plan.decode_moves;
  request.token_ffn = sharding.shares_token_ffn() && plan.workload.steps() > 1
                          ? planner::TokenFfn::automatic
                          : planner::TokenFfn::owner;
  request.gather_weights = plan.gather_weights;
  request.groups = sharding.splits_layers() ? planner::group_names(plan) : "";
  request.group_strategy = plan.group_strategy;
  request = planner::with_default_types(std::move(request));
  add_flags(ask, plan, several);
  if (asked.formats.size() > 1) ask.set("dtype", model::format_name(plan.model));
  if (ask.served) {
    ask.served->policy = chosen.policy;
    ask.best_chunk = asked.best_chunk;
    if (asked.served->policy == nullptr) ask.set("policy", std::string(chosen.policy->name));
    if (!sharding.splits_layers()) ask.served->steps = 0;
  } else if (!sharding.splits_layers()) {
    ask.prompt.steps = 0;
  }
  leave_out(ask, plan);
  return ask;
}

Ask fixed_plan(const Plan& plan, const ServedWorkload* served, const planner::Evaluator& evaluate) {
  const Sharding& sharding = planner::sharding_of(plan);
  Ask ask = ask_of(plan, served, scene_of(plan), evaluate);
  const Request& request = ask.request;
  add_flags(ask, plan, true);
  if (!sharding.is_local() && plan.wire != planner::default_wire(plan.model))
    ask.set("wire-type", std::string(to_string(plan.wire)));
  if (plan.model.cache != planner::default_cache(plan.model))
    ask.set("cache-type", std::string(to_string(plan.model.cache)));
  if (request.head == planner::HeadPlacement::split) ask.set("head", "split");
  if (request.candidates > 0) ask.set("candidates", std::to_string(request.candidates));
  if (plan.release == model::ReleaseRule::late) ask.set("release", "late");
  const std::int64_t chunk = served == nullptr ? 0 : served->chunk;
  if (!reads_whole(request)) ask.set("chunk", chunk > 0 ? std::to_string(chunk) : "whole");
  if (served != nullptr && served->steps > 0 && sharding.splits_layers())
    ask.set("in-flight", std::to_string(served->steps));
  if (ask.served) ask.set("policy", std::string(served->policy->name));
  return ask;
}

}  // namespace tandem::study
