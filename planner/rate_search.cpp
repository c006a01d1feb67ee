#include "planner/rate_search.hpp"

#include <algorithm>

#include "planner/partition/layers.hpp"
#include "planner/recurrent.hpp"
#include "planner/strategy/pipeline.hpp"
#include "planner/strategy/stages.hpp"

namespace tandem::planner {
namespace {

// Adds what `ring` takes `times` times.
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

// A plan like that of `budget`, whose model has so many layers for every device.
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

}  // namespace

model::Ring request_ring(const Plan& plan) {
  model::Ring sum;
  const auto sequences = static_cast<double>(std::max<std::int64_t>(1, in_a_step(plan.reserved())));
  add(sum, ring_of(plan, 0, plan.workload.prompt_tokens), sequences);
  if (later_steps(plan) > 0.0) add(sum, typical_ring(plan), later_steps(plan));
  return sum;
}

// All layers are alike, so devices with one and with two layers tell what any number takes.
ChainProblem chain_problem(const Budget& budget) {
  const Plan& plan = budget.plan();
  const Plan one = probe(plan, 1);
  const std::vector<model::DeviceIndex> order = stage_order(one);
  const model::Ring first = request_ring(one);
  const model::Ring second = request_ring(probe(plan, 2));
  ChainProblem problem{.layers = plan.model.layers, .samples = samples_in_flight(plan)};
  const double messages = 1.0 + later_steps(plan);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double layer = second.stages[i].compute_s - first.stages[i].compute_s;
    problem.devices.push_back({.fixed_s = first.stages[i].compute_s - layer,
                               .layer_s = layer,
                               .most = most_layers(budget, static_cast<std::size_t>(order[i]))});
    std::vector<ChainMessage>& row = problem.messages.emplace_back(order.size());
    const double bytes =
        order.size() < 2
            ? 0.0
            : first.stages[i].wire_s *
                  plan.cluster.route(order[i], order[(i + 1) % order.size()]).bandwidth.value();
    for (std::size_t j = 0; j < order.size(); ++j) {
      if (i == j) continue;
      const model::Route& route = plan.cluster.route(order[i], order[j]);
      row[j] = {.channel_s = first.stages[i].overhead_s + bytes / route.bandwidth.value(),
                .latency_s = messages * route.latency.value()};
    }
  }
  return problem;
}

double request_period(const Plan& plan) {
  return model::token_period(request_ring(plan), samples_in_flight(plan));
}

std::optional<std::vector<model::Share>> shares_by_rate(const Budget& budget) {
  const std::optional<ChainSplit> split = fastest_chain(chain_problem(budget));
  if (!split) return std::nullopt;
  Plan plan = budget.plan();
  plan.devices.clear();
  const std::vector<model::DeviceIndex> given = stage_order(plan);
  std::vector<model::DeviceIndex> order;
  std::vector<std::int64_t> layers(given.size(), 0);
  for (const std::size_t place : split->order) {
    order.push_back(given[place]);
    layers[static_cast<std::size_t>(given[place])] = split->layers[place];
  }
  return layer_shares(plan.model, order, plan.master, layers);
}

std::optional<RateBound> rate_bound(const Plan& plan) {
  if (has_groups(plan)) return std::nullopt;
  Plan outline = plan;
  outline.devices.clear();
  std::vector<double> exchange;
  for (const DevicePlan& device : plan.devices) exchange.push_back(device.memory.buffers);
  RateBound bound{.planned_s = request_period(plan)};
  const std::optional<ChainSplit> split = fastest_chain(chain_problem(Budget(outline, exchange)));
  bound.lower_bound_s = split ? std::min(bound.planned_s, split->bound_s) : bound.planned_s;
  bound.exact = split && split->exact;
  return bound;
}

}  // namespace tandem::planner
