// Galaxy's Algorithm 1 and the exact partition, over devices that differ and whose memory binds.
// The lower bound of plans as well.
// Aim of the exact one: 4 devices in 10 ms, 64 in 1 s.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "models.hpp"
#include "planner/bounds/bound.hpp"
#include "planner/partition/equation5.hpp"
#include "planner/partition/galaxy_partition.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace {

using namespace tandem;

// So many devices on one switch, some three times as fast as others. Together they hold little more
// than Llama 2-70B, and the fastest less than their part by speed.
planner::Plan outline(std::int64_t devices) {
  std::vector<model::Device> made;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  const double part = 290e9 / static_cast<double>(devices);
  for (std::int64_t d = 0; d < devices; ++d) {
    const double speed = 1.0 + static_cast<double>(d % 5) * 0.5;
    const std::string name = "d" + std::to_string(d);
    made.push_back({.name = name,
                    .cores = 4,
                    .flop_rate = model::FlopsPerSecond{speed * 5e10},
                    .memory_bandwidth = model::BytesPerSecond{speed * 1e10},
                    .memory = model::Bytes{part * (1.4 - 0.1 * static_cast<double>(d % 3)) + 2e9}});
    links.push_back({.name = "l" + std::to_string(d),
                     .latency = model::Seconds{1e-3},
                     .bandwidth = model::BytesPerSecond{4e7}});
    edges.push_back({.from = name,
                     .to = "switch",
                     .hops = {{static_cast<model::LinkIndex>(d), model::Direction::up}}});
  }
  planner::Plan plan{
      .strategy = "galaxy",
      .partition = "exact",
      .allreduce = {"ring", "star"},
      .tiles = 1,
      .model = bench::llama2_70b(),
      .cluster = {"flat", std::move(made), {"switch"}, std::move(links), std::move(edges)},
      .workload = {.prompt_tokens = 284, .new_tokens = 1},
      .devices = {},
      .profiles = {}};
  for (const model::Device& device : plan.cluster.devices())
    plan.profiles.push_back(model::nominal_profile(device));
  return plan;
}

void exact(benchmark::State& state) {
  const planner::Plan plan = outline(state.range(0));
  const planner::Budget budget(plan,
                               std::vector<double>(static_cast<std::size_t>(state.range(0)), 1e6));
  double best = 0.0;
  for ([[maybe_unused]] auto _ : state) {
    const auto split = planner::exact_split(budget);
    best = split ? planner::equation5(plan, *split).total() : -1.0;
    benchmark::DoNotOptimize(best);
  }
  const planner::Split heuristic = planner::galaxy_split(budget, planner::capacities(plan));
  state.counters["equation5_s"] = best;
  state.counters["algorithm1_s"] =
      budget.fits(heuristic) ? planner::equation5(plan, heuristic).total() : -1.0;
}

void algorithm1(benchmark::State& state) {
  const planner::Plan plan = outline(state.range(0));
  const planner::Budget budget(plan,
                               std::vector<double>(static_cast<std::size_t>(state.range(0)), 1e6));
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(planner::galaxy_split(budget, planner::capacities(plan)));
}

// The bound of the prompt's step, by strategy: tensor (0) or galaxy (1).
void bound(benchmark::State& state) {
  planner::Plan plan = outline(state.range(0));
  if (state.range(1) == 0) plan.strategy = "tensor";
  double least = 0.0;
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(least =
                                 planner::step_bound(plan, planner::prompt_batch(plan.workload)));
  state.counters["bound_s"] = least;
}

BENCHMARK(bound)->ArgsProduct({{4, 16, 64}, {0, 1}})->Unit(benchmark::kMillisecond);
BENCHMARK(exact)->Arg(4)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK(algorithm1)->Arg(4)->Arg(64)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
