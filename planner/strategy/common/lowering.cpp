#include "planner/strategy/common/lowering.hpp"

#include <algorithm>
#include <utility>

#include "model/base/error.hpp"
#include "model/graph/announcement.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/namesakes.hpp"

namespace tandem::planner {
namespace {

// With candidates, each device has logits of its own rows of the head only, and the master memory
// for all devices' candidates.
void declare(model::TaskGraph& graph, const Plan& plan, model::DeviceIndex d,
             model::BufferDeclaration buffer) {
  if (buffer.name.kind != model::BufferKind::logits || plan.candidates == 0)
    return graph.declare(d, buffer);
  const model::Range own =
      model::head_rows(plan.model, plan.devices[static_cast<std::size_t>(d)].share);
  buffer.columns = own.size();
  buffer.first = own.begin;
  graph.declare(d, buffer);
  const model::Range candidates = d == plan.master ? all_candidates(plan) : candidates_of(plan, d);
  buffer.name = {model::BufferKind::candidates, 0};
  buffer.columns = candidates.size();
  buffer.first = candidates.begin;
  graph.declare(d, buffer);
}

}  // namespace

model::TaskGraph Strategy::lower(const Plan& plan, const model::Batch& batch) const {
  if (placed == nullptr && !batch.places.empty())
    throw Error("strategy '" + name + "': a step whose rows have places, expected none, as the " +
                "plan alone determines its devices; give the result of a run of this plan");
  model::TaskGraph graph = tasks(plan, batch);
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const auto device = static_cast<model::DeviceIndex>(d);
    const model::Share& share = plan.devices[d].share;
    for (const model::BufferDeclaration& buffer :
         buffers_of(plan, device, share, share.head && heads_at_once(plan)))
      declare(graph, plan, device, buffer);
  }
  return model::announced(std::move(graph), plan.cluster, plan.master);
}

std::vector<model::BufferDeclaration> Strategy::buffers_of(const Plan& plan,
                                                           model::DeviceIndex device,
                                                           const model::Share& share,
                                                           bool streams_head) const {
  return buffers != nullptr ? buffers(plan, device, share, streams_head)
                            : model::share_buffers(plan.model, share, streams_head);
}

std::vector<DecodeMoves> Strategy::moves() const {
  if (sharding.splits_positions())
    return {DecodeMoves::queries, DecodeMoves::keys_each_step, DecodeMoves::keys_once};
  if (sharding.measures_losses()) return {DecodeMoves::queries, DecodeMoves::keys_once};
  return {DecodeMoves::queries};
}

std::string strategies_that(const std::function<bool(const Sharding&)>& holds) {
  std::string names;
  for (const Strategy& strategy : strategies()) {
    if (holds(strategy.sharding)) names += (names.empty() ? "'" : " or '") + strategy.name + "'";
  }
  return names;
}

std::string strategy_names() {
  std::string names;
  for (const Strategy& strategy : strategies())
    names += (names.empty() ? "" : ", ") + strategy.name;
  return names;
}

const Strategy& find_strategy(const std::string& name) {
  const auto found = std::ranges::find(strategies(), name, &Strategy::name);
  if (found != strategies().end()) return *found;
  throw Error("strategy '" + name + "': unknown, expected one of " + strategy_names() +
              namesake_remedy(name));
}

std::string with_split_weights(const Strategy& strategy) {
  for (const Strategy& other : strategies()) {
    if (strategy.sharding.divides_work() && other.sharding.exchanges_rows() &&
        other.sharding.splits_heads())
      return other.name;
  }
  return {};
}

const Sharding& sharding_of(const Plan& plan) { return find_strategy(plan.strategy).sharding; }

bool has_column_parts(const Plan& plan) {
  return std::ranges::any_of(
      plan.devices, [](const DevicePlan& device) { return !device.share.part.columns.empty(); });
}

bool shares_token_ffn(const Plan& plan) {
  return sharding_of(plan).shares_token_ffn() && has_column_parts(plan);
}

void check_lengths(const Plan& plan, const Workload& workload) {
  const Strategy& strategy = find_strategy(plan.strategy);
  if (strategy.lengths != nullptr) strategy.lengths(plan, workload);
}

void check_serves_many(const Plan& plan) {
  const Strategy& strategy = find_strategy(plan.strategy);
  if (strategy.serves_many != nullptr) strategy.serves_many(plan);
}

model::Batch prompt_batch(const Workload& workload) {
  return {{{.sequence = 0,
            .past = 0,
            .rows = static_cast<std::int32_t>(workload.prompt_tokens),
            .sampled = workload.new_tokens > 0 ? 1 : 0}}};
}

model::Batch decode_batch(std::int32_t past) {
  return {{{.sequence = 0, .past = past, .rows = 1}}};
}

model::Batch scored_batch(std::int32_t rows, std::int32_t sampled) {
  return {{{.sequence = 0, .past = 0, .rows = rows, .sampled = sampled}}};
}

GenerationSteps::GenerationSteps(const Plan& plan) : GenerationSteps(plan, plan.workload) {}

GenerationSteps::GenerationSteps(const Plan& plan, Workload workload)
    : plan_(&plan), workload_(workload) {
  workload_.validate(plan.model);
  check_lengths(plan, workload_);
}

std::int32_t GenerationSteps::count() const { return static_cast<std::int32_t>(workload_.steps()); }

const model::TaskGraph& GenerationSteps::graph(std::int32_t i) {
  require(0 <= i && i < count(), "GenerationSteps: step out of range");
  const Strategy& strategy = find_strategy(plan_->strategy);
  if (i == 0) {
    if (!prompt_) {
      prompt_ = std::make_unique<model::TaskGraph>(strategy.lower(*plan_, prompt_batch(workload_)));
    }
    return *prompt_;
  }
  const auto past = static_cast<std::int32_t>(workload_.prompt_tokens) + i - 1;
  if (!decode_) {
    decode_ = std::make_unique<model::TaskGraph>(strategy.lower(*plan_, decode_batch(past)));
  } else {
    decode_->advance({&past, 1});
  }
  return *decode_;
}

std::optional<std::vector<model::Channel>> GenerationSteps::channels() {
  // All steps after the prompt have one structure.
  std::vector<const model::TaskGraph*> graphs;
  for (std::int32_t i = 0; i < std::min(count(), 2); ++i) graphs.push_back(&graph(i));
  return model::channels_of(graphs);
}

}  // namespace tandem::planner
