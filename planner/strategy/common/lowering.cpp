#include "planner/strategy/common/lowering.hpp"

#include <algorithm>

#include "model/base/error.hpp"
#include "model/graph/announcement.hpp"

namespace tandem::planner {

model::TaskGraph Strategy::lower(const Plan& plan, const model::Batch& batch) const {
  return model::announced(tasks(plan, batch), plan.cluster, plan.master);
}

std::vector<model::BufferDeclaration> Strategy::buffers_of(const Plan& plan,
                                                           model::DeviceIndex device,
                                                           const model::Share& share,
                                                           bool streams_head) const {
  return buffers != nullptr ? buffers(plan, device, share, streams_head)
                            : model::share_buffers(plan.model, share, streams_head);
}

std::vector<DecodeMoves> Strategy::moves() const {
  std::vector<DecodeMoves> known{DecodeMoves::queries};
  if (moves_keys) known.push_back(DecodeMoves::keys_each_step);
  if (migrates) known.push_back(DecodeMoves::keys_once);
  return known;
}

bool shares_token_ffn(const Plan& plan) {
  return find_strategy(plan.strategy).shares_tokens &&
         std::ranges::any_of(plan.devices, [](const DevicePlan& device) {
           return !device.share.part.columns.empty();
         });
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
  // All steps after the prompt are of one structure.
  std::vector<const model::TaskGraph*> graphs;
  for (std::int32_t i = 0; i < std::min(count(), 2); ++i) graphs.push_back(&graph(i));
  return model::channels_of(graphs);
}

}  // namespace tandem::planner
