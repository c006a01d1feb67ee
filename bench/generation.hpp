#pragma once

// A whole generation predicted, as a benchmark.

#include <benchmark/benchmark.h>

#include <cstdint>

#include "model/predict/analytic.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::bench {

// Times `evaluate` over the generation that `plan` says; an item is a task. Counts the tasks and
// the predicted seconds.
template <class Evaluate>
void generation(benchmark::State& state, const planner::Plan& plan, Evaluate evaluate) {
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
  state.counters["tasks"] = static_cast<double>(tasks);
  state.counters["predicted_s"] = predicted_s;
  state.SetItemsProcessed(tasks * state.iterations());
}

}  // namespace tandem::bench
