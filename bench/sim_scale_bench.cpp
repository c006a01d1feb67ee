// What predicting costs in a city: 100 tokens of a model of Llama 2-70B's shape with L layers over
// N devices, star all-reduces. Bounds: 10 s for 64 devices on SimGrid, 60 s for 1024 analytically.
// Arguments: devices, layers, whether every step is evaluated (else runs are extended).

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "planner/lowering.hpp"
#include "planner/search.hpp"
#include "sim/city.hpp"
#include "sim/platform.hpp"
#include "sim/replay.hpp"

namespace {

using namespace tandem;

std::string city_file(std::int64_t devices) {
  const auto path =
      std::filesystem::temp_directory_path() / ("tandem-scale-" + std::to_string(devices) + ".xml");
  std::ofstream(path) << sim::city_platform_xml(
      {.homes = devices / 2, .devices_per_home = 2, .seed = 1});
  return path.string();
}

planner::Request request_for(std::int64_t devices, std::int64_t layers) {
  const std::string file = city_file(devices);
  planner::Request request{.model = {.name = "llama-2-70b",
                                     .layers = layers,
                                     .hidden = 8192,
                                     .heads = 64,
                                     .kv_heads = 8,
                                     .head_dim = 128,
                                     .intermediate = 28672,
                                     .vocab = 32000,
                                     .max_context = 4096},
                           .cluster = sim::read_platform(file).cluster,
                           .workload = {.prompt_tokens = 16, .new_tokens = 100}};
  std::filesystem::remove(file);
  return request;
}

const planner::Plan& plan_for(std::int64_t devices, std::int64_t layers) {
  static std::map<std::pair<std::int64_t, std::int64_t>, planner::Plan> plans;
  const auto known = plans.find({devices, layers});
  if (known != plans.end()) return known->second;
  auto result = planner::make_plan(request_for(devices, layers));
  if (const auto* why = std::get_if<planner::Infeasible>(&result))
    throw std::runtime_error(why->reason);
  return plans.emplace(std::pair(devices, layers), std::get<planner::Plan>(std::move(result)))
      .first->second;
}

template <class Evaluate>
void generation(benchmark::State& state, Evaluate evaluate) {
  const planner::Plan& plan = plan_for(state.range(0), state.range(1));
  std::int64_t tasks = 0;
  double predicted_s = 0.0;
  for ([[maybe_unused]] auto _ : state) {
    planner::GenerationSteps steps(plan);
    model::RunRecorder recorder(plan.cluster, plan.master, false);
    evaluate(plan.cluster, plan.cost_model(), steps, recorder);
    tasks = 0;
    for (const auto& kinds : recorder.kinds()) {
      for (const auto& kind : kinds) tasks += kind.count;
    }
    predicted_s = recorder.metrics().token_times_s.back();
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  state.counters["tasks"] = static_cast<double>(tasks);
  state.counters["predicted_s"] = predicted_s;
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1e3;
  state.SetItemsProcessed(tasks * state.iterations());
}

void simgrid(benchmark::State& state) {
  generation(state, state.range(2) != 0 ? sim::replay : sim::replay_extended);
}
void analytic(benchmark::State& state) {
  generation(state, state.range(2) != 0 ? model::evaluate_analytic : model::extend_analytic);
}
void plan(benchmark::State& state) {
  const planner::Request request = request_for(state.range(0), state.range(1));
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(planner::make_plan(request));
}

const std::vector<std::string> kNames{"devices", "layers", "every_step"};

BENCHMARK(analytic)
    ->ArgNames(kNames)
    ->ArgsProduct({{16, 64, 256, 1024}, {80}, {0, 1}})
    ->ArgsProduct({{64}, {20, 40}, {0, 1}})
    ->UseRealTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(simgrid)
    ->ArgNames(kNames)
    ->ArgsProduct({{16, 64}, {80}, {0, 1}})
    ->ArgsProduct({{64}, {20, 40}, {0, 1}})
    ->Args({256, 80, 0})
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
