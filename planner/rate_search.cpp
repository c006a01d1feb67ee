#include "planner/rate_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "planner/lowering.hpp"
#include "planner/partition/layers.hpp"
#include "planner/recurrent.hpp"
#include "planner/strategy/block.hpp"
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

// Of those that share a step of new tokens.
double sequences_of(const Plan& plan) {
  return static_cast<double>(std::max<std::int64_t>(1, in_a_step(plan.reserved())));
}

// What `layer` takes of `device` in a step.
double layer_seconds(const Plan& plan, const model::CostModel& costs, model::DeviceIndex device,
                     std::int32_t layer, const model::Batch& batch) {
  model::TaskGraph graph(batch);
  DeviceTasks tasks(graph, plan.model, device);
  const model::Range heads{0, static_cast<std::int32_t>(plan.model.heads)};
  const model::Range columns{0, static_cast<std::int32_t>(plan.model.intermediate)};
  const model::TaskIndex sum =
      tasks.add_partial(model::WeightBlock::attention, layer, tasks.attention(layer, heads, -1));
  tasks.add_partial(model::WeightBlock::ffn, layer, tasks.ffn(layer, columns, sum));
  double seconds = 0.0;
  for (const model::Task& task : graph.tasks())
    seconds += costs.compute_time(graph.batch(), task).value();
  return seconds;
}

// What each layer takes of `device` in a typical request, with those that share its steps.
std::vector<double> layers_seconds(const Plan& plan, model::DeviceIndex device) {
  const model::CostModel costs = plan.cost_model();
  const std::int64_t middle = plan.workload.prompt_tokens + plan.workload.new_tokens / 2;
  model::Batch tokens;
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(sequences_of(plan)); ++s)
    tokens.segments.push_back({.sequence = s, .past = static_cast<std::int32_t>(middle)});
  std::vector<double> seconds;
  for (std::int32_t layer = 0; layer < plan.model.layers; ++layer) {
    const auto in = [&](const model::Batch& batch) {
      return layer_seconds(plan, costs, device, layer, batch);
    };
    seconds.push_back(sequences_of(plan) * in(prompt_batch(plan.workload)) +
                      later_steps(plan) * in(tokens));
  }
  return seconds;
}

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
  add(sum, ring_of(plan, 0, plan.workload.prompt_tokens), sequences_of(plan));
  if (later_steps(plan) > 0.0) add(sum, typical_ring(plan), later_steps(plan));
  return sum;
}

// Where all layers are alike, devices with one and with two layers tell what any number takes; else
// a layer takes what all of them do on average.
ChainProblem chain_problem(const Budget& budget) {
  const Plan& plan = budget.plan();
  const Plan one = probe(plan, 1);
  const std::vector<model::DeviceIndex> order = stage_order(one);
  const model::Ring first = request_ring(one);
  const bool alike = plan.model.layers_alike();
  const model::Ring second = alike ? request_ring(probe(plan, 2)) : model::Ring{};
  ChainProblem problem{.layers = plan.model.layers, .samples = samples_in_flight(plan)};
  const double messages = 1.0 + later_steps(plan);
  for (std::size_t i = 0; i < order.size(); ++i) {
    double layer = 0.0;
    double own = 0.0;  // the one that the device has
    if (alike) {
      layer = own = second.stages[i].compute_s - first.stages[i].compute_s;
    } else {
      const std::vector<double> layers = layers_seconds(plan, order[i]);
      layer =
          std::accumulate(layers.begin(), layers.end(), 0.0) / static_cast<double>(layers.size());
      own = layers[i];
    }
    problem.devices.push_back({.fixed_s = first.stages[i].compute_s - own,
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
  if (!plan.model.layers_alike()) {
    auto runs = fastest_runs(budget, order, samples_in_flight(plan));
    if (!runs) return std::nullopt;
    layers = *std::move(runs);
  }
  return layer_shares(plan.model, order, plan.master, layers);
}

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kHalvings = 60;

// Runs of layers of devices that follow one another.
class Runs {
 public:
  Runs(const Budget& budget, const std::vector<model::DeviceIndex>& order,
       const ChainProblem& chain)
      : layers_(static_cast<std::size_t>(budget.plan().model.layers)) {
    const std::vector<model::DeviceIndex> places = stage_order(budget.plan());
    for (const model::DeviceIndex device : order) {
      const auto place = std::ranges::find(places, device) - places.begin();
      Stage stage{.busy_s = {chain.devices[static_cast<std::size_t>(place)].fixed_s},
                  .ends = ends_of(budget, device)};
      for (const double seconds : layers_seconds(budget.plan(), device))
        stage.busy_s.push_back(stage.busy_s.back() + seconds);
      stages_.push_back(std::move(stage));
    }
  }

  // The least seconds in all with which no device takes longer than `most_s`, and where each run
  // ends; infinite if none fit. By dynamic programming over devices and ends.
  double least(double most_s, std::vector<std::int64_t>& counts) const {
    const std::size_t n = stages_.size();
    std::vector<double> best(layers_ + 1, kNever);  // of the devices so far, up to each layer
    best[0] = 0.0;
    std::vector<std::vector<std::size_t>> begins(n, std::vector<std::size_t>(layers_ + 1, 0));
    for (std::size_t i = 0; i < n; ++i) {
      const Stage& stage = stages_[i];
      std::vector<double> next(layers_ + 1, kNever);
      for (std::size_t begin = 0; begin < layers_; ++begin) {
        if (best[begin] == kNever) continue;
        for (std::size_t end = begin + 1; end <= stage.ends[begin]; ++end) {
          const double busy = stage.busy_s[end] - stage.busy_s[begin] + stage.busy_s[0];
          if (busy > most_s) break;
          if (best[begin] + busy >= next[end]) continue;
          next[end] = best[begin] + busy;
          begins[i][end] = begin;
        }
      }
      best = std::move(next);
    }
    if (best[layers_] == kNever) return kNever;
    counts.assign(n, 0);
    for (std::size_t i = n, end = layers_; i-- > 0;) {
      counts[i] = static_cast<std::int64_t>(end - begins[i][end]);
      end = begins[i][end];
    }
    return best[layers_];
  }

 private:
  struct Stage {
    std::vector<double> busy_s;     // what does not depend on layers, and so many first ones
    std::vector<std::size_t> ends;  // by where a run begins: where the longest that fits ends
  };

  static std::vector<std::size_t> ends_of(const Budget& budget, model::DeviceIndex device) {
    const model::Transformer& model = budget.plan().model;
    const auto d = static_cast<std::size_t>(device);
    const auto all = static_cast<std::int32_t>(model.layers);
    const auto fits = [&](std::int32_t begin, std::int32_t end) {
      const model::Share share =
          whole_layers(model, device == budget.plan().master, model::Range{begin, end});
      return budget.use(d, share).total() <= budget.bytes(d);
    };
    std::vector<std::size_t> ends;
    std::int32_t end = 0;
    const bool has_room = fits(0, all);
    for (std::int32_t begin = 0; begin < all; ++begin) {
      end = has_room ? all : std::max(begin, end);
      while (end < all && fits(begin, end + 1)) ++end;
      ends.push_back(static_cast<std::size_t>(end));
    }
    return ends;
  }

  std::size_t layers_;
  std::vector<Stage> stages_;
};

}  // namespace

std::optional<std::vector<std::int64_t>> fastest_runs(const Budget& budget,
                                                      const std::vector<model::DeviceIndex>& order,
                                                      std::int64_t samples) {
  const ChainProblem chain = chain_problem(budget);
  const Runs runs(budget, order, chain);
  std::vector<std::int64_t> counts;
  double sum = runs.least(kNever, counts);
  if (sum == kNever) return std::nullopt;
  if (samples > 1) {
    // What a device may take at most, and what a round then takes at least, meet.
    const std::vector<model::DeviceIndex> places = stage_order(budget.plan());
    double messages = 0.0;
    for (std::size_t i = 0; i < order.size() && order.size() > 1; ++i) {
      const auto place = [&](std::size_t at) {
        return static_cast<std::size_t>(std::ranges::find(places, order[at % order.size()]) -
                                        places.begin());
      };
      const ChainMessage& message = chain.messages[place(i)][place(i + 1)];
      messages += message.channel_s + message.latency_s;
    }
    double low = 0.0;
    double high = sum + messages;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2.0;
      std::vector<std::int64_t> found;
      sum = runs.least(middle, found);
      const bool enough = (sum + messages) / static_cast<double>(samples) <= middle;
      if (enough) counts = std::move(found);
      (enough ? high : low) = middle;
    }
  }
  std::vector<std::int64_t> by_device(order.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i)
    by_device[static_cast<std::size_t>(order[i])] = counts[i];
  return by_device;
}

std::optional<RateBound> rate_bound(const Plan& plan) {
  if (has_groups(plan) || !plan.model.layers_alike()) return std::nullopt;
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
