#include "planner/search/least_request_time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>

#include "model/graph/announcement.hpp"
#include "model/predict/program.hpp"
#include "planner/partition/exact/run_splits.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

// The first layer begins with the embedding, the last ends with one sum less; those between are
// equal. More layers may decide what few do not, as devices still drift apart in those.
constexpr std::array<std::int64_t, 2> kTrialLayers{4, 8};
constexpr double kHopeless = 0.98;  // what is less by so much is so with more layers, too

Plan of_few_layers(Plan plan, std::int64_t layers) {
  plan.model = plan.model.first_layers(layers);
  plan.devices.clear();
  return plan;
}

// Ends of a step's actions without contention (model/predict/analytic.hpp), and what each start
// waited for longest.
struct Ends {
  std::vector<double> end{};
  std::vector<model::ActionIndex> waited{};  // -1: nothing
};

using Costs = std::function<model::ActionCost(const model::LaneAction&)>;

Ends ends_of(const model::Program& program, const model::Cluster& cluster, const Costs& costs) {
  const auto devices = static_cast<std::size_t>(cluster.size());
  struct Lane {
    double free = 0.0;
    model::ActionIndex last = -1;
  };
  std::vector<Lane> lanes(devices * (devices + 1));  // of cpus, then of channels by sender
  Ends ends;
  ends.end.reserve(static_cast<std::size_t>(program.size()));
  ends.waited.reserve(ends.end.capacity());
  for (model::ActionIndex i = 0; i < program.size(); ++i) {
    const model::LaneAction& action = program.actions()[static_cast<std::size_t>(i)];
    const model::ActionCost cost = costs(action);
    const auto device = static_cast<std::size_t>(action.device);
    const bool channel = action.lane == model::LaneKind::channel;
    Lane& lane =
        lanes[channel ? devices * (device + 1) + static_cast<std::size_t>(action.peer) : device];
    double start = lane.free;
    model::ActionIndex waited = lane.last;
    for (const model::ActionIndex d : program.dependencies(i)) {
      if (ends.end[static_cast<std::size_t>(d)] <= start) continue;
      start = ends.end[static_cast<std::size_t>(d)];
      waited = d;
    }
    lane = {.free = start + cost.seconds, .last = i};
    double flight = 0.0;
    if (channel) {
      const model::Route& route = cluster.route(action.device, action.peer);
      lane.free += cost.bytes / route.bandwidth.value();
      flight = route.latency.value();
    }
    ends.end.push_back(lane.free + flight);
    ends.waited.push_back(waited);
  }
  return ends;
}

bool same_action(const model::LaneAction& a, const model::LaneAction& b) {
  return a.kind == b.kind && a.lane == b.lane && a.device == b.device && a.peer == b.peer;
}

// The actions of each layer, in order.
std::vector<std::vector<model::ActionIndex>> by_layer(const model::Program& program,
                                                      std::int64_t layers) {
  std::vector<std::vector<model::ActionIndex>> actions(static_cast<std::size_t>(layers));
  for (model::ActionIndex i = 0; i < program.size(); ++i) {
    const std::int32_t layer = program.actions()[static_cast<std::size_t>(i)].layer;
    if (layer >= 0) actions[static_cast<std::size_t>(layer)].push_back(i);
  }
  return actions;
}

// Returns a lower bound on the time added by `more` layers. If the longest path, which ends with
// `last`, passes the same action of two equal layers, it can be repeated any number of times from
// there. And if all of a layer is later than the layer before, so is every further one by the same
// amount.
double least_of_more(const model::Program& program, const Ends& ends, model::ActionIndex last,
                     std::int64_t layers, std::int64_t more) {
  const auto actions = by_layer(program, layers);
  std::vector<bool> on_path(ends.end.size(), false);
  for (model::ActionIndex i = last; i >= 0; i = ends.waited[static_cast<std::size_t>(i)])
    on_path[static_cast<std::size_t>(i)] = true;
  double most = 0.0;
  for (std::size_t a = 1; a + 2 < actions.size(); ++a) {
    for (std::size_t b = a + 1; b + 1 < actions.size(); ++b) {
      const auto apart = static_cast<std::int64_t>(b - a);
      const std::int64_t times = more / apart;
      if (times * apart != more || actions[a].size() != actions[b].size()) continue;
      double of_all = ends.end.back();
      double of_path = 0.0;
      for (std::size_t k = 0; k < actions[a].size(); ++k) {
        const auto from = static_cast<std::size_t>(actions[a][k]);
        const auto to = static_cast<std::size_t>(actions[b][k]);
        if (!same_action(program.actions()[from], program.actions()[to])) return most;
        const double later = ends.end[to] - ends.end[from];
        of_all = std::min(of_all, later);
        if (on_path[from] && on_path[to]) of_path = std::max(of_path, later);
      }
      most = std::max(most, static_cast<double>(times) * std::max(of_all, of_path));
    }
  }
  return most;
}

}  // namespace

LeastRequestTime::LeastRequestTime(const Plan& outline)
    : layers_(outline.model.layers),
      bounded_(std::ranges::none_of(outline.model.windowed, std::identity())),
      costs_(outline.cost_model()) {
  if (bounded_ && !outline.model.has_uniform_layers()) {
    const std::vector<std::int32_t> first = first_equal_layers(outline.model);
    for (std::int32_t layer = 0; layer < std::ssize(first); ++layer) {
      if (first[static_cast<std::size_t>(layer)] != layer) continue;
      kinds_.emplace_back(uniform_model(outline.model, layer, kTrialLayers.back()),
                          outline.profiles);
    }
  }
  for (const std::int64_t layers : kTrialLayers) {
    if (few_.empty() || few_.back().model.layers < layers_)
      few_.push_back(of_few_layers(outline, std::min(layers, layers_)));
  }
}

double LeastRequestTime::step(const Plan& few, const model::Program& program,
                              const model::TaskGraph& graph) const {
  const auto cost = [&](const model::LaneAction& action) {
    const auto with = [&](const model::CostModel& costs) {
      return model::action_cost(few.cluster, costs, graph, action);
    };
    if (kinds_.empty() || action.layer < 0) return with(costs_);
    model::ActionCost least = with(kinds_.front());
    for (std::size_t kind = 1; kind < kinds_.size(); ++kind)
      least.seconds = std::min(least.seconds, with(kinds_[kind]).seconds);
    return least;
  };
  const Ends ends = ends_of(program, few.cluster, cost);
  const model::ActionIndex last = model::outcome_of(program, few.master);
  return ends.end[static_cast<std::size_t>(last)] +
         least_of_more(program, ends, last, few.model.layers, layers_ - few.model.layers);
}

double LeastRequestTime::prompt(const Plan& few) const {
  const model::TaskGraph graph = find_strategy(few.strategy).lower(few, prompt_batch(few.workload));
  return step(few, model::Program(graph), graph);
}

double LeastRequestTime::tokens(const Plan& few) const {
  const std::int64_t tokens = few.workload.steps() - 1;
  if (tokens == 0) return 0.0;
  // The two in the middle, or twice the one.
  const std::int64_t first = few.workload.prompt_tokens + (tokens - 1) / 2;
  const std::int64_t second = few.workload.prompt_tokens + tokens / 2;
  model::TaskGraph graph =
      find_strategy(few.strategy).lower(few, decode_batch(static_cast<std::int32_t>(first)));
  // An announcement may travel while the step before is computed.
  if (model::announces(graph)) return 0.0;
  const model::Program program(graph);
  double both = step(few, program, graph);
  if (second == first) {
    both *= 2.0;
  } else {
    const auto past = static_cast<std::int32_t>(second);
    graph.advance({&past, 1});
    both += step(few, program, graph);
  }
  return both / 2.0 * static_cast<double>(tokens);
}

LeastRequestTime::Least LeastRequestTime::in_memory(const std::vector<model::Share>& shares,
                                                    double enough) {
  if (!bounded_) return {};
  Least least;
  for (Plan& few : few_) {
    few.devices.clear();
    for (model::Share share : shares) {
      if (!share.layers.empty()) share.layers = {0, static_cast<std::int32_t>(few.model.layers)};
      few.devices.push_back({.share = share, .memory = {}});
    }
    least.prompt = std::max(least.prompt, prompt(few));
    if (least.total() >= enough) break;
    least.tokens = std::max(least.tokens, tokens(few));
    if (least.total() >= enough || least.total() < enough * kHopeless) break;
  }
  return least;
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
