#include "planner/least_request_time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "model/analytic.hpp"
#include "model/announcement.hpp"
#include "planner/lowering.hpp"

namespace tandem::planner {
namespace {

// The first layer begins with the embedding, the last ends with one sum less; those between are
// alike. What few layers do not tell, as devices are still moving apart, more may.
constexpr std::array<std::int64_t, 2> kLayers{4, 8};
constexpr double kSettled = 1e-12;  // of a step: what differs by less is rounding

Plan of_few_layers(Plan plan, std::int64_t layers) {
  plan.model = plan.model.first_layers(layers);
  plan.devices.clear();
  return plan;
}

bool same_action(const model::Span& a, const model::Span& b) {
  return a.kind == b.kind && a.lane == b.lane && a.device == b.device && a.peer == b.peer;
}

// By how much actions of a layer end after those of the layer before.
struct Shift {
  double least = 0.0;
  double most = std::numeric_limits<double>::infinity();
};

// Of layer `later`; nothing is said if its actions are not the same.
Shift shift_to(std::int32_t later, const std::vector<model::Span>& spans) {
  const auto next_of = [&](std::int32_t layer, auto from) {
    return std::find_if(from, spans.end(),
                        [layer](const model::Span& span) { return span.layer == layer; });
  };
  Shift shift{.least = std::numeric_limits<double>::infinity(), .most = 0.0};
  auto before = next_of(later - 1, spans.begin());
  auto after = next_of(later, spans.begin());
  while (before != spans.end() && after != spans.end() && same_action(*before, *after)) {
    const double by = after->end - before->end;
    shift.least = std::min(shift.least, by);
    shift.most = std::max(shift.most, by);
    before = next_of(later - 1, before + 1);
    after = next_of(later, after + 1);
  }
  return before == spans.end() && after == spans.end() ? shift : Shift{};
}

// When the one step of a run ends: with its token or, an encoder's, with its pass.
double end_of(const model::Metrics& metrics) {
  return metrics.token_times_s.empty() ? metrics.ttft_s : metrics.token_times_s.front();
}

}  // namespace

LeastRequestTime::LeastRequestTime(const Plan& outline)
    : layers_(outline.model.layers),
      bounded_(outline.model.layers_alike()),
      costs_(outline.cost_model()) {
  for (const std::int64_t layers : kLayers) {
    if (few_.empty() || few_.back().model.layers < layers_)
      few_.push_back(of_few_layers(outline, std::min(layers, layers_)));
  }
}

LeastRequestTime::Bound LeastRequestTime::step(const Plan& few,
                                               const model::TaskGraph& graph) const {
  model::OneStep step(graph);
  model::RunRecorder recorder(few.cluster, few.master, /*keep_spans=*/true);
  model::evaluate_analytic(few.cluster, costs_, step, recorder);
  const double end = end_of(recorder.metrics());
  const std::int64_t more = layers_ - few.model.layers;
  if (more == 0) return {.seconds = end, .exact = true};
  // The last layer but one, as that of a step of more layers is such, too.
  const Shift shift =
      shift_to(static_cast<std::int32_t>(few.model.layers) - 2, recorder.trace().spans);
  return {.seconds = end + static_cast<double>(more) * shift.least,
          .exact = shift.most - shift.least <= kSettled * end};
}

LeastRequestTime::Bound LeastRequestTime::prompt(const Plan& few) const {
  return step(few, find_strategy(few.strategy).lower(few, prompt_batch(few.workload)));
}

LeastRequestTime::Bound LeastRequestTime::tokens(const Plan& few) const {
  const std::int64_t tokens = few.workload.steps() - 1;
  if (tokens == 0) return {.seconds = 0.0, .exact = true};
  // The two in the middle, or twice the one.
  const std::int64_t first = few.workload.prompt_tokens + (tokens - 1) / 2;
  const std::int64_t second = few.workload.prompt_tokens + tokens / 2;
  model::TaskGraph graph =
      find_strategy(few.strategy).lower(few, decode_batch(static_cast<std::int32_t>(first)));
  // An announcement may travel while the step before is computed.
  if (model::announces(graph)) return {.seconds = 0.0, .exact = true};
  Bound bound = step(few, graph);
  if (second != first) {
    const auto past = static_cast<std::int32_t>(second);
    graph.advance({&past, 1});
    const Bound other = step(few, graph);
    bound = {.seconds = (bound.seconds + other.seconds) / 2.0, .exact = bound.exact && other.exact};
  }
  bound.seconds *= static_cast<double>(tokens);
  return bound;
}

LeastRequestTime::Least LeastRequestTime::in_memory(const std::vector<model::Share>& shares,
                                                    double enough) {
  if (!bounded_) return {};
  Bound prompt;
  Bound tokens;
  for (Plan& few : few_) {
    few.devices.clear();
    for (model::Share share : shares) {
      if (!share.layers.empty()) share.layers = {0, static_cast<std::int32_t>(few.model.layers)};
      few.devices.push_back({.share = share, .memory = {}});
    }
    if (!prompt.exact) prompt = this->prompt(few);
    if (!tokens.exact) tokens = this->tokens(few);
    if (prompt.seconds + tokens.seconds >= enough || (prompt.exact && tokens.exact)) break;
  }
  return {.prompt = prompt.seconds, .tokens = tokens.seconds};
}

double LeastRequestTime::tiles_gain(const Plan& plan) const {
  const auto master = static_cast<std::size_t>(plan.master);
  const DevicePlan& device = plan.devices[master];
  model::Task task;
  task.kind = model::TaskKind::lm_head;
  task.block = model::WeightBlock::head;
  task.device = plan.master;
  task.rows = {0, 1};
  const auto time = [&](model::Range rows) {
    task.columns = rows;
    return costs_.compute_time(decode_batch(0), task).value();
  };
  double tiles = 0.0;
  for (const StreamedBlock& block : streamed_blocks(plan.model, device.share, device.window)) {
    if (block.block == model::WeightBlock::head) tiles += time(block.columns);
  }
  if (tiles == 0.0) return 0.0;
  return std::max(0.0, time({0, static_cast<std::int32_t>(plan.model.vocab)}) - tiles);
}

double LeastRequestTime::streamed(const Plan& plan, const Least& in_memory) const {
  const auto steps = static_cast<double>(plan.workload.steps());
  const double gain = tiles_gain(plan);
  const double prompt = std::max(0.0, in_memory.prompt - gain);
  double least = std::max(0.0, in_memory.prompt + in_memory.tokens - steps * gain);
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const DevicePlan& device = plan.devices[d];
    double all = 0.0;
    double ahead = 0.0;
    std::int32_t block = 0;
    for (const StreamedBlock& each : streamed_blocks(plan.model, device.share, device.window)) {
      all += each.bytes;
      if (block++ < device.window.blocks) ahead += each.bytes;
    }
    if (all == 0.0) continue;
    const double disk = plan.cluster.devices()[d].disk_bandwidth.value();
    const double first = std::max(prompt, all / disk);
    least = std::max({least, steps * all / disk, first + ((steps - 1.0) * all - ahead) / disk});
  }
  return least;
}

}  // namespace tandem::planner
