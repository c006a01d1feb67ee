// What predicting costs in a city: 100 tokens of a model of Llama 2-70B's sizes with L layers over
// N devices. Bounds, with star all-reduces: 10 s for 64 devices on SimGrid, 60 s for 1024
// analytically. Arguments: devices, layers, whether every step is evaluated (else runs are
// extrapolated), all-reduce (0 star, 1 hierarchical, 2 ring). A ring's graph has 3 N^2 tasks an
// all-reduce, so that of many devices is measured with few layers.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "generation.hpp"
#include "models.hpp"
#include "planner/search/search.hpp"
#include "sim/platform/city.hpp"
#include "sim/platform/platform.hpp"
#include "sim/replay/replay.hpp"

namespace {

using namespace tandem;

std::string city_file(std::int64_t devices) {
  const auto path =
      std::filesystem::temp_directory_path() / ("tandem-scale-" + std::to_string(devices) + ".xml");
  std::ofstream(path) << sim::city_platform_xml(
      {.homes = devices / 2, .devices_per_home = 2, .seed = 1});
  return path.string();
}

constexpr std::array<const char*, 3> kAllreduces{"star", "hierarchical", "ring"};

planner::Request request_for(std::int64_t devices, std::int64_t layers, std::int64_t allreduce) {
  const std::string file = city_file(devices);
  planner::Request request{.model = bench::llama2_70b(layers),
                           .cluster = sim::read_platform(file).cluster,
                           .partition = "galaxy",
                           .allreduce = kAllreduces.at(static_cast<std::size_t>(allreduce)),
                           .evaluate = sim::replay,
                           .workload = {.prompt_tokens = 16, .new_tokens = 100}};
  std::filesystem::remove(file);
  return request;
}

// Made once for each set of arguments.
const planner::Plan& plan_for(std::int64_t devices, std::int64_t layers, std::int64_t allreduce) {
  static std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, planner::Plan> plans;
  const std::tuple key(devices, layers, allreduce);
  const auto known = plans.find(key);
  if (known != plans.end()) return known->second;
  auto result = planner::make_plan(request_for(devices, layers, allreduce));
  if (const auto* why = std::get_if<planner::Infeasible>(&result))
    throw std::runtime_error(why->reason);
  return plans.emplace(key, std::get<planner::Plan>(std::move(result))).first->second;
}

template <class Evaluate>
void generation(benchmark::State& state, Evaluate evaluate) {
  bench::generation(state, plan_for(state.range(0), state.range(1), state.range(3)), evaluate);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1e3;
}

void simgrid(benchmark::State& state) {
  generation(state, state.range(2) != 0 ? sim::replay : sim::replay_extrapolated);
}
void analytic(benchmark::State& state) {
  generation(state, state.range(2) != 0 ? model::evaluate_analytic : model::extrapolate_analytic);
}
void plan(benchmark::State& state) {
  const planner::Request request = request_for(state.range(0), state.range(1), 0);
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(planner::make_plan(request));
}

const std::vector<std::string> kNames{"devices", "layers", "every_step", "allreduce"};

BENCHMARK(analytic)
    ->ArgNames(kNames)
    ->ArgsProduct({{16, 64, 256, 1024}, {80}, {0, 1}, {0}})
    ->ArgsProduct({{64}, {20, 40}, {0, 1}, {0}})
    ->ArgsProduct({{64, 256, 1024}, {80}, {0}, {1}})
    ->ArgsProduct({{64}, {1, 4, 80}, {0}, {2}})
    ->ArgsProduct({{256}, {1, 4, 20}, {0}, {2}})
    ->Args({1024, 1, 0, 2})
    ->UseRealTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(simgrid)
    ->ArgNames(kNames)
    ->ArgsProduct({{16, 64}, {80}, {0, 1}, {0}})
    ->ArgsProduct({{64}, {20, 40}, {0, 1}, {0}})
    ->Args({256, 80, 0, 0})
    ->ArgsProduct({{64, 256}, {80}, {0}, {1}})
    ->ArgsProduct({{16, 64}, {1, 4}, {0}, {2}})
    ->UseRealTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(plan)
    ->ArgNames({"devices", "layers"})
    ->Args({64, 80})
    ->Args({1024, 80})
    ->UseRealTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
