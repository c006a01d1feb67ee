#include "advice/plan_request.hpp"

#include <algorithm>
#include <utility>

#include "advice/prompt_chunks.hpp"
#include "model/predict/device_profile.hpp"
#include "planner/search/request_checks.hpp"
#include "planner/search/token_ffn.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"

namespace tandem::study {
namespace {

// Plans keep the rates of their own formats. Nominal ones have those of all: a change may need
// them.
model::DeviceProfile whole_profile(const planner::Plan& plan, std::size_t device) {
  const model::DeviceProfile& kept = plan.profiles[device];
  model::DeviceProfile nominal = model::nominal_profile(plan.cluster.devices()[device]);
  nominal.program_bytes = kept.program_bytes;
  return model::for_formats(nominal, plan.model.formats, plan.model.cache) == kept ? nominal : kept;
}

}  // namespace

Scene scene_of(const planner::Plan& plan) {
  const auto name = [&](model::DeviceIndex d) {
    return plan.cluster.devices()[static_cast<std::size_t>(d)].name;
  };
  Scene scene{.cluster = plan.cluster, .profiles = {}, .master = name(plan.master)};
  for (std::size_t d = 0; d < plan.profiles.size(); ++d)
    scene.profiles.push_back(whole_profile(plan, d));
  if (!planner::sharding_of(plan).splits_layers() || !planner::has_groups(plan)) return scene;
  for (const planner::Stage& stage : planner::stages(plan)) {
    std::vector<std::string>& group = scene.groups.emplace_back();
    for (const model::DeviceIndex d : stage.devices) group.push_back(name(d));
  }
  return scene;
}

std::string to_text(const std::vector<std::vector<std::string>>& groups) {
  std::string text;
  for (const std::vector<std::string>& group : groups) {
    if (group.empty()) continue;
    text += text.empty() ? "" : "/";
    for (const std::string& name : group)
      text += (text.empty() || text.back() == '/' ? "" : ",") + name;
  }
  return text;
}

planner::Request request_of(const planner::Plan& plan, const Scene& scene,
                            planner::Evaluator evaluate) {
  const planner::Sharding& sharding = planner::sharding_of(plan);
  planner::Request request{
      .model = plan.model,
      .cluster = scene.cluster,
      .strategy = plan.strategy,
      .decode_moves = plan.decode_moves,
      .token_ffn = planner::token_ffn_of(plan),
      .gather_weights = plan.gather_weights && planner::can_gather(scene.cluster),
      .evaluate = std::move(evaluate),
      .master = scene.master,
      .workload = plan.workload,
      .capacity = plan.capacity,
      .profiles = scene.profiles,
      .release = plan.release,
      .groups = to_text(scene.groups),
      .group_strategy = scene.groups.empty() ? "" : plan.group_strategy,
      .wire = plan.wire};
  if (planner::splits_head(plan) && planner::head_obstacle(request).empty()) {
    request.head = planner::HeadPlacement::split;
    request.candidates = plan.candidates;
  }
  if (!sharding.splits_layers())
    request.capacity.steps = std::min<std::int64_t>(1, request.capacity.steps);
  if (sharding.splits_layers() && planner::has_rounds(plan)) request.rounds.reset();
  if (sharding.has_collective() || !scene.groups.empty()) {
    const planner::AllreduceChoice sums =
        scene.groups.empty() ? planner::possible_choice(
                                   scene.cluster, scene.cluster.find(scene.master), plan.allreduce)
                             : plan.allreduce;
    request.allreduce = sharding.joins_prompts_only() || sums.prompt == sums.decode
                            ? sums.prompt
                            : sums.prompt + "," + sums.decode;
  }
  if (sharding.exchanges_rows() || !request.group_strategy.empty()) request.tiles = plan.tiles;
  if (plan.streams() && sharding.may_stream()) request.window.blocks.reset();
  return request;
}

Ask ask_of(const planner::Plan& plan, const ServedWorkload* served, const Scene& scene,
           planner::Evaluator evaluate) {
  Ask ask{.request = request_of(plan, scene, std::move(evaluate))};
  if (served == nullptr) return ask;
  if (is_one_in_chunks(*served)) {
    ask.request.capacity = {};  // reserved for the shares that the plan has now
    ask.prompt = {.rows = served->chunk, .steps = served->steps};
    return ask;
  }
  ask.served = *served;
  if (!planner::sharding_of(plan).splits_layers()) ask.served->steps = 0;
  return ask;
}

Ask open_ask_of(const planner::Plan& plan, const ServedWorkload* served, const Scene& scene,
                planner::Evaluator evaluate) {
  Ask ask = ask_of(plan, served, scene, std::move(evaluate));
  planner::Request& request = ask.request;
  const planner::Sharding& sharding = planner::sharding_of(plan);
  request.open_axes = {
      .parts = true, .stages = true, .moves = true, .sums = true, .at_length = true, .tiles = true};
  request.tiles.reset();
  if (request.groups.empty()) {
    request.allreduce.reset();
    if (sharding.splits_layers()) request.rounds.reset();
  }
  if (sharding.shares_token_ffn() && request.workload.steps() > 1 && !ask.served)
    request.token_ffn = planner::TokenFfn::automatic;
  if (ask.served) {
    ask.served->steps = 0;
    ask.best_chunk =
        request.model.architecture().generates() && planner::serves(*served->policy, 0);
  } else {
    ask.prompt = {.best = !reads_whole(request)};
  }
  return ask;
}

}  // namespace tandem::study
