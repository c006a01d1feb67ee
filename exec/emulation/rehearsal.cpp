#include "exec/emulation/rehearsal.hpp"

#include <array>
#include <utility>

#include "exec/profiling/profile_rig.hpp"

namespace tandem::exec {
namespace {

ComputeLimits of_one_token(ComputeLimits limits) {
  limits.max_rows = 1;
  limits.cache_positions = 1;
  limits.sequences = 1;
  limits.logit_rows = 1;
  return limits;
}

// Whether `a` and `b` have the same weights and operands, whatever their rows.
bool alike(const model::Task& a, const model::Task& b) {
  return a.kind == b.kind && a.layer == b.layer && a.block == b.block && a.columns == b.columns &&
         a.input == b.input && a.output == b.output;
}

}  // namespace

Rehearsal::Rehearsal(const model::TaskGraph& graph, model::DeviceIndex device,
                     const model::Transformer& transformer, const Shard& shard,
                     ComputeLimits limits)
    : batch_(graph.batch()), compute_(transformer, shard.alias(), of_one_token(std::move(limits))) {
  for (const model::Task& task : graph.tasks()) {
    if (task.device == device && task.lane == model::LaneKind::cpu &&
        task.kind != model::TaskKind::sample)
      tasks_.push_back(task);
  }
  if (shard.share().embedding) compute_.set_tokens(std::array{std::int32_t{0}});
  compute_.begin(batch_);
}

void Rehearsal::executed(const model::Task& task) {
  of_prompt_ = task.rows.size() > kNewTokenRows;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const std::size_t at = (next_ + i) % tasks_.size();
    if (!alike(tasks_[at], task)) continue;
    next_ = (at + 1) % tasks_.size();
    return;
  }
}

void Rehearsal::refill() {
  if (of_prompt_) return;
  for (std::size_t i = 0; i < tasks_.size(); ++i)
    compute_.execute(batch_, tasks_[(next_ + i) % tasks_.size()]);
}

}  // namespace tandem::exec
