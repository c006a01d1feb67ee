#include "model/steady_state/steadiness.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace tandem::model {
namespace {

// The blocks of a step, in which devices compute without exchanging.
enum class Phase : std::uint8_t { embedding, attention, ffn, head, none };

// A norm belongs to what follows it on its device.
Phase phase_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::embed:
    case TaskKind::fetch:
      return Phase::embedding;
    case TaskKind::project_qkv:
    case TaskKind::attend:
    case TaskKind::project_out:
      return Phase::attention;
    case TaskKind::ffn_up:
    case TaskKind::ffn_down:
      return Phase::ffn;
    case TaskKind::lm_head:
    case TaskKind::sample:
      return Phase::head;
    case TaskKind::norm:
    case TaskKind::add:
    case TaskKind::load:
    case TaskKind::release:
    case TaskKind::transfer:
      return Phase::none;
  }
  return Phase::none;
}

struct Times {
  double compute = 0.0;
  double stall = 0.0;
};

}  // namespace

std::optional<Steady> steadiness(const Trace& trace, std::int32_t first_step, double tolerance) {
  std::vector<const Span*> computes;
  std::map<std::int32_t, double> step_ends;
  std::map<DeviceIndex, double> loads;
  for (const Span& span : trace.spans) {
    if (span.step < first_step) continue;
    if (span.lane == LaneKind::cpu) {
      computes.push_back(&span);
      double& end = step_ends.try_emplace(span.step, span.end).first->second;
      end = std::max(end, span.end);
    } else if (span.kind == TaskKind::load && span.step > first_step) {
      loads[span.device] += span.end - span.start;
    }
  }
  if (step_ends.size() < 2 || loads.empty()) return std::nullopt;
  std::sort(computes.begin(), computes.end(), [](const Span* a, const Span* b) {
    return std::tie(a->device, a->step, a->task) < std::tie(b->device, b->step, b->task);
  });

  using Block = std::tuple<std::int32_t, std::int32_t, Phase>;  // step, layer, phase
  std::map<Block, std::map<DeviceIndex, Times>> blocks;
  Times norm;
  const Span* before = nullptr;
  for (const Span* span : computes) {
    if (span->step == first_step) continue;
    if (before != nullptr && (before->device != span->device || before->step != span->step))
      norm = {};
    before = span;
    const Times times{.compute = span->end - span->start, .stall = span->stall};
    if (span->kind == TaskKind::norm) {
      norm.compute += times.compute;
      norm.stall += times.stall;
      continue;
    }
    const Phase phase = phase_of(span->kind);
    if (phase == Phase::none) continue;
    Times& block = blocks[{span->step, span->layer, phase}][span->device];
    block.compute += times.compute + norm.compute;
    block.stall += times.stall + norm.stall;
    norm = {};
  }
  double delay = 0.0;
  for (const auto& [block, devices] : blocks) {
    double with = 0.0;
    double without = 0.0;
    for (const auto& [device, times] : devices) {
      with = std::max(with, times.compute + times.stall);
      without = std::max(without, times.compute);
    }
    delay += with - without;
  }
  double longest_load = 0.0;
  for (const auto& [device, time] : loads) longest_load = std::max(longest_load, time);
  const double time = step_ends.rbegin()->second - step_ends.begin()->second;
  const double fraction = time > 0.0 ? delay / time : 0.0;
  return Steady{
      .verdict = fraction <= tolerance ? "steady" : "stalling",
      .stall_fraction = fraction,
      .slack_s = (time - delay - longest_load) / static_cast<double>(step_ends.size() - 1)};
}

}  // namespace tandem::model
