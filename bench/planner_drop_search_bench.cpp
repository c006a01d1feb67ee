// Levels and ratios of sparse attention by objective, for models whose loss was measured: how long
// the search takes, and how far what it finds is from exhaustive search on the same grid. Aim:
// within the paper's 2 to 4% of its oracle.

#include <benchmark/benchmark.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <variant>

#include "model/transformer/transformer.hpp"
#include "planner/search/drop_search.hpp"
#include "sim/platform/platform.hpp"
#include "tests/support/source_tree.hpp"

namespace {

using namespace tandem;

constexpr std::array<const char*, 2> kModels{"tandem-tiny", "tandem-deep"};

std::filesystem::path scenarios() { return testing::in_sources("scenarios"); }

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::filesystem::path loss_file(std::int64_t model) {
  return scenarios() / "models" / kModels.at(static_cast<std::size_t>(model)) / "eval" /
         "sparse_loss.json";
}

// model, percent of the way from the least to the most that can be lost, or from the longest time
// to the least, percent between ratios, whether a time is given
void search(benchmark::State& state) {
  const auto file = loss_file(state.range(0));
  const planner::LossModel loss = planner::parse_loss_model(contents(file), file.string());
  const planner::Request request{
      .model = loss.model,
      .cluster = sim::read_platform((scenarios() / "platforms" / "home4.xml").string()).cluster,
      .strategy = "csps",
      .workload = {.prompt_tokens = 900, .new_tokens = 1}};
  planner::DropBounds bounds{
      .loss = 1e3, .levels = 3, .step = 0.01 * static_cast<double>(state.range(2))};
  const auto most = std::get<planner::DropChoice>(planner::choose_drop(request, loss, bounds));
  const double part = 0.01 * static_cast<double>(state.range(1));
  if (state.range(3) == 0) {
    bounds.loss = part * most.taken.loss;
  } else {
    bounds.loss.reset();
    bounds.ttft_s = most.dense.ttft_s + part * (most.taken.ttft_s - most.dense.ttft_s);
  }
  planner::DropChoice found = most;
  for ([[maybe_unused]] auto _ : state)
    found = std::get<planner::DropChoice>(planner::choose_drop(request, loss, bounds));
  const auto best =
      std::get<planner::DropChoice>(planner::choose_drop_exhaustively(request, loss, bounds));
  state.counters["loss"] = found.taken.loss;
  state.counters["oracle_loss"] = best.taken.loss;
  state.counters["ttft_ms"] = 1e3 * found.taken.ttft_s;
  state.counters["oracle_ttft_ms"] = 1e3 * best.taken.ttft_s;
  state.counters["gap_percent"] =
      100.0 * (state.range(3) == 0 ? found.taken.ttft_s / best.taken.ttft_s - 1.0
                                   : found.taken.loss / best.taken.loss - 1.0);
  state.counters["plans"] = static_cast<double>(found.evaluated);
  state.counters["oracle_plans"] = static_cast<double>(best.evaluated);
  state.counters["plans_per_s"] = benchmark::Counter(static_cast<double>(found.evaluated),
                                                     benchmark::Counter::kIsIterationInvariantRate);
}

void arguments(benchmark::internal::Benchmark* bench) {
  for (std::int64_t model = 0; model < static_cast<std::int64_t>(kModels.size()); ++model) {
    if (!std::filesystem::exists(loss_file(model))) continue;
    for (const std::int64_t time : {0, 1}) {
      for (const std::int64_t part : {20, 40, 60, 80})
        bench->Args({model, part, model == 0 ? 5 : 25, time});
    }
  }
}

BENCHMARK(search)
    ->Apply(arguments)
    ->ArgNames({"model", "part", "step", "time"})
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
