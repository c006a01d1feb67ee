#include "planner/search/rate_search.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "planner/partition/exact/run_splits.hpp"
#include "planner/partition/layer_partition.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"
#include "planner/strategy/pipeline.hpp"
#include "planner/strategy/stage_ring.hpp"

namespace tandem::planner {
namespace {

// Adds the times of `ring`, multiplied by `times`.
void add(model::Ring& sum, const model::Ring& ring, double times) {
  if (sum.stages.empty()) sum.stages.resize(ring.stages.size());
  for (std::size_t i = 0; i < ring.stages.size(); ++i) {
    sum.stages[i].name = ring.stages[i].name;
    sum.stages[i].compute_s += times * ring.stages[i].compute_s;
    sum.stages[i].overhead_s += times * ring.stages[i].overhead_s;
    sum.stages[i].wire_s += times * ring.stages[i].wire_s;
    sum.stages[i].latency_s += times * ring.stages[i].latency_s;
  }
  sum.other.name = ring.other.name;
  sum.other.seconds += times * ring.other.seconds;
  sum.delay_s += times * ring.delay_s;
}

// Steps of a request after its prompt's.
double later_steps(const Plan& plan) { return static_cast<double>(plan.workload.steps() - 1); }

// Returns the sequences that share a step of new tokens.
double sequences_of(const Plan& plan) {
  return static_cast<double>(std::max<std::int64_t>(1, in_a_step(plan.reserved())));
}

// Returns a plan like `outline` whose model has so many layers for every device.
Plan probe(const Plan& outline, std::int64_t layers) {
  Plan plan = outline;
  const std::size_t count = plan.cluster.devices().size();
  plan.model = plan.model.first_layers(layers * static_cast<std::int64_t>(count));
  plan.devices.clear();
  const std::vector<std::int64_t> each(count, layers);
  for (const model::Share& share : layer_shares(plan.model, stage_order(plan), plan.master, each))
    plan.devices.push_back({.share = share, .memory = {}});
  return plan;
}

// Layers by stage, of stages that follow one another in `order`; nothing if they do not fit.
std::optional<std::vector<std::int64_t>> runs_in(const StageChain& chain,
                                                 const std::vector<std::size_t>& order) {
  RunProblem problem{.samples = chain.problem.samples};
  for (std::size_t i = 0; i < order.size(); ++i) {
    problem.stages.push_back(chain.stages[order[i]]);
    const ChainMessage& message = chain.problem.messages[order[i]][order[(i + 1) % order.size()]];
    problem.messages_s += message.channel_s + message.latency_s;
    problem.channel_s = std::max(problem.channel_s, message.channel_s);
  }
  const auto runs = fastest_runs(problem);
  if (!runs) return std::nullopt;
  std::vector<std::int64_t> counts(order.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) counts[order[i]] = (*runs)[i];
  return counts;
}

StageTimes times_of(const Plan& plan) {
  return stage_times(plan, static_cast<std::int64_t>(plan.cluster.devices().size()), probe);
}

}  // namespace

model::Ring request_ring(const Plan& plan) {
  model::Ring sum;
  add(sum, ring_of(plan, 0, plan.workload.prompt_tokens), sequences_of(plan));
  if (later_steps(plan) > 0.0) add(sum, typical_ring(plan), later_steps(plan));
  return sum;
}

StageTimes stage_times(const Plan& outline, std::int64_t stages, const Probe& probe) {
  const auto with_layers_like = [&](std::int32_t layer) {
    Plan like = outline;
    like.model = uniform_model(outline.model, layer, 2 * stages);
    return like;
  };
  const auto two_like = [&](std::int32_t layer) {
    return request_ring(probe(with_layers_like(layer), 2));
  };
  StageTimes times{.one = probe(with_layers_like(0), 1)};
  times.ring = request_ring(times.one);
  const model::Ring two = two_like(0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(stages); ++i) {
    const double first_s = two.stages[i].compute_s - times.ring.stages[i].compute_s;
    times.fixed_s.push_back(times.ring.stages[i].compute_s - first_s);
    times.layer_s.push_back({first_s});
  }
  const std::vector<std::int32_t> first = first_equal_layers(outline.model);
  for (std::size_t layer = 1; layer < first.size(); ++layer) {
    const auto known = static_cast<std::size_t>(first[layer]);
    const model::Ring others = known == layer ? two_like(first[layer]) : model::Ring{};
    for (std::size_t i = 0; i < times.layer_s.size(); ++i) {
      times.layer_s[i].push_back(known == layer
                                     ? (others.stages[i].compute_s - times.fixed_s[i]) / 2.0
                                     : times.layer_s[i][known]);
    }
  }
  return times;
}

double mean_seconds(const std::vector<double>& layers) {
  if (std::ranges::adjacent_find(layers, std::not_equal_to<>()) == layers.end())
    return layers.front();
  return std::accumulate(layers.begin(), layers.end(), 0.0) / static_cast<double>(layers.size());
}

StageChain stage_chain(const Budget& budget) {
  const Plan& plan = budget.plan();
  const StageTimes times = times_of(plan);
  const std::vector<model::DeviceIndex> order = stage_order(times.one);
  StageChain chain{.problem = {.layers = plan.model.layers, .samples = samples_in_flight(plan)}};
  ChainProblem& problem = chain.problem;
  const double messages = 1.0 + later_steps(plan);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto d = static_cast<std::size_t>(order[i]);
    problem.devices.push_back(
        {.fixed_s = times.fixed_s[i], .layer_s = mean_seconds(times.layer_s[i])});
    if (plan.model.has_uniform_layers()) {
      problem.devices.back().most = most_layers(budget, d);
    } else {
      const auto fits = [&](model::Range run) {
        const model::Share share = whole_layers(plan.model, order[i] == plan.master, run);
        return budget.use(d, share).total() <= budget.bytes(d);
      };
      chain.stages.push_back({.fixed_s = times.fixed_s[i],
                              .layer_s = times.layer_s[i],
                              .ends = run_ends(plan.model.layers, fits)});
      problem.devices.back().most = longest_run(chain.stages.back().ends);
    }
    std::vector<ChainMessage>& row = problem.messages.emplace_back(order.size());
    const double bytes =
        order.size() < 2
            ? 0.0
            : times.ring.stages[i].wire_s *
                  plan.cluster.route(order[i], order[(i + 1) % order.size()]).bandwidth.value();
    for (std::size_t j = 0; j < order.size(); ++j) {
      if (i == j) continue;
      const model::Route& route = plan.cluster.route(order[i], order[j]);
      row[j] = {.channel_s = times.ring.stages[i].overhead_s + bytes / route.bandwidth.value(),
                .latency_s = messages * route.latency.value()};
    }
  }
  return chain;
}

double request_period(const Plan& plan) {
  return model::token_period(request_ring(plan), samples_in_flight(plan));
}

std::optional<std::vector<model::Share>> shares_by_rate(const Budget& budget) {
  const Plan& plan = budget.plan();
  const std::vector<LayerAssignment> assignments = layer_assignments(stage_chain(budget));
  if (assignments.empty()) return std::nullopt;
  const std::vector<model::DeviceIndex> given = stage_order(plan);
  std::vector<model::DeviceIndex> order;
  std::vector<std::int64_t> layers(given.size(), 0);
  for (const std::size_t place : assignments.front().order) {
    order.push_back(given[place]);
    layers[static_cast<std::size_t>(given[place])] = assignments.front().layers[place];
  }
  return layer_shares(plan.model, order, plan.master, layers);
}

std::vector<LayerAssignment> layer_assignments(const StageChain& chain) {
  const std::optional<ChainSplit> split = fastest_chain(chain.problem);
  std::vector<LayerAssignment> assignments;
  if (chain.stages.empty()) {
    if (split) assignments.push_back({.layers = split->layers, .order = split->order});
    return assignments;
  }
  std::vector<std::size_t> given(chain.stages.size());
  std::iota(given.begin(), given.end(), std::size_t{0});
  for (const std::vector<std::size_t>& order : {split ? split->order : given, given}) {
    if (!assignments.empty() && assignments.front().order == order) continue;
    if (auto layers = runs_in(chain, order))
      assignments.push_back({.layers = *std::move(layers), .order = order});
  }
  return assignments;
}

std::optional<std::vector<std::int64_t>> fastest_runs(const Budget& budget, std::int64_t samples) {
  StageChain chain = stage_chain(budget);
  chain.problem.samples = samples;
  const std::vector<model::DeviceIndex> places = stage_order(budget.plan());
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto counts = runs_in(chain, order);
  if (!counts) return std::nullopt;
  std::vector<std::int64_t> by_device(places.size(), 0);
  for (std::size_t i = 0; i < places.size(); ++i)
    by_device[static_cast<std::size_t>(places[i])] = (*counts)[i];
  return by_device;
}

std::optional<RateBound> rate_bound(const Plan& plan) {
  if (has_groups(plan) || !plan.model.has_uniform_layers()) return std::nullopt;
  Plan outline = plan;
  outline.devices.clear();
  std::vector<double> exchange;
  for (const DevicePlan& device : plan.devices) exchange.push_back(device.memory.buffers);
  RateBound bound{.planned_s = request_period(plan)};
  const std::optional<ChainSplit> split =
      fastest_chain(stage_chain(Budget(outline, exchange)).problem);
  bound.lower_bound_s = split ? std::min(bound.planned_s, split->bound_s) : bound.planned_s;
  bound.exact = split && split->exact;
  return bound;
}

}  // namespace tandem::planner
