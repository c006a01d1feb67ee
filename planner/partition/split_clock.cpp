#include "planner/partition/split_clock.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "model/base/error.hpp"
#include "model/predict/analytic.hpp"
#include "model/predict/program.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::TaskKind;

// The first layer begins with the embedding and the last ends with one sum less; the one between
// them represents all others.
constexpr std::int64_t kLayers = 3;
constexpr std::int32_t kMiddle = 1;

Plan of_few_layers(Plan plan) {
  plan.model = plan.model.first_layers(std::min(plan.model.layers, kLayers));
  // The layers with experts stand for the few without.
  if (plan.model.experts) plan.model.experts->dense_layers.clear();
  return plan;
}

double seconds(const model::CostModel& costs, const model::TaskGraph& graph) {
  double sum = 0.0;
  for (const model::Task& task : graph.tasks())
    sum += costs.compute_time(graph.batch(), task).value();
  return sum;
}

// Returns the end of a run's only step: its token or, for an encoder, its pass.
double end_of(const model::Metrics& metrics) {
  return metrics.token_times_s.empty() ? metrics.ttft_s : metrics.token_times_s.front();
}

// The part of the model's heads and columns that a device can hold without streaming.
double resident_fraction(const Budget& budget, std::size_t device) {
  const model::Transformer& t = budget.plan().model;
  constexpr int kHalvings = 9;  // to a thousandth
  double good = 0.0;
  double step = 1.0;
  for (int halving = 0; halving < kHalvings; ++halving) {
    step /= 2.0;
    const double fraction = good + step;
    const auto count = [&](std::int64_t all) {
      return static_cast<std::int32_t>(std::ceil(fraction * static_cast<double>(all)));
    };
    const bool master = device == static_cast<std::size_t>(budget.plan().master);
    const model::Share share{.layers = {0, static_cast<std::int32_t>(t.layers)},
                             .heads = {0, count(t.heads)},
                             .columns = {0, count(t.intermediate)},
                             .embedding = master,
                             .head = master};
    if (budget.use(device, share, Window{}).total() <= budget.bytes(device)) good = fraction;
  }
  return good;
}

// Returns the result of a step: its last sample, or the end of an encoder's pass on the master.
std::size_t result_of(const model::Program& program, DeviceIndex master) {
  std::ptrdiff_t last = -1;
  for (auto i = static_cast<std::ptrdiff_t>(program.size()) - 1; i >= 0; --i) {
    const model::LaneAction& action = program.actions()[static_cast<std::size_t>(i)];
    if (action.kind == TaskKind::sample) return static_cast<std::size_t>(i);
    if (last < 0 && action.device == master && action.lane == model::LaneKind::cpu) last = i;
  }
  require(last >= 0, "split clock: a step without a result");
  return static_cast<std::size_t>(last);
}

// By action, whose spans are `spans`, how much later it could end without delaying the result, if
// nothing else changed.
std::vector<double> slacks(const model::Program& program, const std::vector<model::Span>& spans,
                           const model::Cluster& cluster, DeviceIndex master) {
  require(spans.size() == static_cast<std::size_t>(program.size()),
          "split clock: an action is one span");
  std::vector<double> slack(spans.size(), kNever);
  std::map<std::tuple<model::LaneKind, DeviceIndex, DeviceIndex>, std::size_t> next_in_lane;
  slack[result_of(program, master)] = 0.0;
  for (std::size_t i = spans.size(); i-- > 0;) {
    const model::Span& span = spans[i];
    const auto [next, last] = next_in_lane.try_emplace({span.lane, span.device, span.peer}, i);
    if (!last) {
      // A channel is free once the bytes are out.
      const bool channel = span.lane == model::LaneKind::channel;
      const double flight = channel ? cluster.route(span.device, span.peer).latency.value() : 0.0;
      const std::size_t n = next->second;
      slack[i] = std::min(slack[i], slack[n] + std::max(0.0, spans[n].start - (span.end - flight)));
      next->second = i;
    }
    for (const model::ActionIndex d : program.dependencies(static_cast<model::ActionIndex>(i))) {
      const auto dependency = static_cast<std::size_t>(d);
      slack[dependency] =
          std::min(slack[dependency], slack[i] + std::max(0.0, span.start - spans[dependency].end));
    }
  }
  return slack;
}

// Completes unknown limits of one kind of blocks by those of the other: a device has less time than
// others because of its routes, which both kinds use.
void complete(std::vector<double>& limits, const std::vector<bool>& known,
              const std::vector<double>& others) {
  double offset = kNever;
  for (std::size_t d = 0; d < limits.size(); ++d) {
    if (known[d]) offset = std::min(offset, limits[d] - others[d]);
  }
  for (std::size_t d = 0; d < limits.size(); ++d) {
    if (!known[d]) limits[d] = others[d] + offset;
  }
}

}  // namespace

SplitClock::SplitClock(const Budget& budget)
    : plan_(of_few_layers(budget.plan())), costs_(plan_.cost_model()) {
  phases_.push_back(phase(budget, prompt_batch(plan_.workload), 1.0));
  const std::int64_t decodes = plan_.workload.new_tokens - 1;
  if (decodes > 0) {
    const std::int64_t past = plan_.workload.prompt_tokens + (decodes - 1) / 2;
    phases_.push_back(
        phase(budget, decode_batch(static_cast<std::int32_t>(past)), static_cast<double>(decodes)));
  }
}

SplitClock::Phase SplitClock::phase(const Budget& budget, const model::Batch& batch,
                                    double weight) const {
  Phase result{.batch = batch, .weight = weight, .blocks = {}};
  const model::Transformer& t = plan_.model;
  for (DeviceIndex device = 0; device < plan_.cluster.size(); ++device) {
    const auto d = static_cast<std::size_t>(device);
    const double disk = plan_.cluster.devices()[d].disk_bandwidth.value();
    const double whole = budget.window(d).streams() ? resident_fraction(budget, d) : 1.0;
    const auto resident = [&](std::int64_t all) {
      return static_cast<std::int64_t>(std::floor(whole * static_cast<double>(all)));
    };
    BlockTimes times;
    times.heads.push_back(0.0);
    for (std::int32_t heads = 1; heads <= t.heads; ++heads) {
      model::TaskGraph graph(batch);
      DeviceTasks(graph, t, device).attention(0, {0, heads}, -1);
      double time = seconds(costs_, graph);
      if (heads > resident(t.heads)) {
        time = std::max(time, static_cast<double>(t.attention_bytes(0, {0, heads})) / disk);
      }
      times.heads.push_back(time);
    }
    const auto columns_seconds = [&](std::int64_t columns) {
      model::TaskGraph graph(batch);
      DeviceTasks(graph, t, device).ffn(0, {0, static_cast<std::int32_t>(columns)}, -1);
      return seconds(costs_, graph);
    };
    times.first_column = columns_seconds(1);
    if (t.intermediate > 1)
      times.next_column = (columns_seconds(t.intermediate) - times.first_column) /
                          static_cast<double>(t.intermediate - 1);
    times.resident_columns = resident(t.intermediate);
    if (times.resident_columns < t.intermediate) {
      const auto all = static_cast<std::int32_t>(t.intermediate);
      times.load_column =
          static_cast<double>(t.ffn_bytes(0, {0, all})) / static_cast<double>(all) / disk;
    }
    result.blocks.push_back(std::move(times));
  }
  return result;
}

double SplitClock::BlockTimes::columns(std::int64_t count) const {
  if (count == 0) return 0.0;
  const double time = first_column + static_cast<double>(count - 1) * next_column;
  if (count <= resident_columns) return time;
  return std::max(time, load_column * static_cast<double>(count));
}

std::int64_t SplitClock::BlockTimes::columns_within(double seconds, std::int64_t all) const {
  if (seconds < first_column) return 0;
  const auto most = static_cast<double>(all);  // min takes it where a quotient is none
  const double computed = 1.0 + std::min(most, (seconds - first_column) / next_column);
  const double loaded = std::min(most, seconds / load_column);
  const auto resident =
      std::min<std::int64_t>(resident_columns, static_cast<std::int64_t>(computed));
  return std::max(resident, static_cast<std::int64_t>(std::min(computed, loaded)));
}

Race SplitClock::heads(const Measured& measured) const {
  const auto times = [this](std::size_t phase, std::size_t device) -> const std::vector<double>& {
    return phases_[phase].blocks[device].heads;
  };
  Race race{
      .time =
          [times](std::size_t phase, std::size_t device, std::int64_t count) {
            return times(phase, device)[static_cast<std::size_t>(count)];
          },
      .units = [times](std::size_t phase, std::size_t device, double seconds) -> std::int64_t {
        const std::vector<double>& all = times(phase, device);
        const auto beyond = std::upper_bound(all.begin(), all.end(), seconds);
        return std::max<std::int64_t>(0, beyond - all.begin() - 1);
      },
      .weight = {},
      .limit = measured.heads_limit};
  for (const Phase& phase : phases_) race.weight.push_back(phase.weight);
  return race;
}

Race SplitClock::columns(const Measured& measured) const {
  Race race{
      .time = [this](std::size_t phase, std::size_t device,
                     std::int64_t count) { return phases_[phase].blocks[device].columns(count); },
      .units = [this](std::size_t phase, std::size_t device, double seconds) -> std::int64_t {
        return phases_[phase].blocks[device].columns_within(seconds, plan_.model.intermediate);
      },
      .weight = {},
      .limit = measured.columns_limit};
  for (const Phase& phase : phases_) race.weight.push_back(phase.weight);
  return race;
}

void SplitClock::set(const Split& split) {
  plan_.devices.clear();
  for (const model::Share& share : to_shares(plan_.model, plan_.master, split))
    plan_.devices.push_back({.share = share, .memory = {}});
}

double SplitClock::time(const Split& split) {
  count_evaluation();
  set(split);
  const Plan& plan = plan_;
  const Strategy& strategy = find_strategy(plan.strategy);
  double time = 0.0;
  for (const Phase& phase : phases_) {
    const model::TaskGraph graph = strategy.lower(plan, phase.batch);
    model::OneStep step(graph);
    model::RunRecorder recorder(plan.cluster, plan.master, /*keep_spans=*/false);
    model::evaluate_analytic(plan.cluster, costs_, step, recorder);
    time += phase.weight * end_of(recorder.metrics());
  }
  return time;
}

SplitClock::Measured SplitClock::measure(const Split& split) {
  count_evaluation();
  set(split);
  const Plan& plan = plan_;
  const Strategy& strategy = find_strategy(plan.strategy);
  const std::size_t devices = plan.devices.size();
  Measured measured;
  std::vector<bool> has_heads(devices);
  std::vector<bool> has_columns(devices);
  for (std::size_t d = 0; d < devices; ++d) {
    has_heads[d] = split.heads[d] > 0;
    has_columns[d] = split.columns[d] > 0;
  }
  const auto layer = std::min(kMiddle, static_cast<std::int32_t>(plan.model.layers) - 1);
  for (const Phase& phase : phases_) {
    const model::TaskGraph graph = strategy.lower(plan, phase.batch);
    model::OneStep step(graph);
    model::RunRecorder recorder(plan.cluster, plan.master, /*keep_spans=*/true);
    model::evaluate_analytic(plan.cluster, costs_, step, recorder);
    measured.time += phase.weight * end_of(recorder.metrics());
    std::vector<double>& heads = measured.heads_limit.emplace_back();
    std::vector<double>& columns = measured.columns_limit.emplace_back();
    for (std::size_t d = 0; d < devices; ++d) {
      heads.push_back(phase.blocks[d].heads[static_cast<std::size_t>(split.heads[d])]);
      columns.push_back(phase.blocks[d].columns(split.columns[d]));
    }
    const std::vector<model::Span>& spans = recorder.trace().spans;
    const std::vector<double> slack =
        slacks(model::Program(graph), spans, plan.cluster, plan.master);
    for (std::size_t i = 0; i < spans.size(); ++i) {
      if (spans[i].layer != layer || slack[i] == kNever) continue;
      const auto d = static_cast<std::size_t>(spans[i].device);
      if (spans[i].kind == TaskKind::project_out) heads[d] += slack[i];
      if (spans[i].kind == TaskKind::ffn_down) columns[d] += slack[i];
    }
    complete(heads, has_heads, columns);
    complete(columns, has_columns, heads);
  }
  return measured;
}

}  // namespace tandem::planner
