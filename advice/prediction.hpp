#pragma once

// What the evaluators say of a plan: of one request or of many, once or with several seeds.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/graph/scheduler.hpp"
#include "model/predict/bottleneck.hpp"
#include "model/report/result.hpp"
#include "model/report/trace.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/plan/plan.hpp"
#include "planner/serving/policy/policy.hpp"

namespace tandem::study {

enum class EvaluatorKind : std::uint8_t {
  simgrid,   // links are shared
  analytic,  // nothing contends, and nothing may vary
};
[[nodiscard]] std::string_view to_string(EvaluatorKind evaluator);

// How often what varies is simulated.
struct Repetitions {
  bool varies = false;  // whether anything of the cluster does, by chance or in time
  std::uint64_t seed = 1;
  std::int64_t count = 1;  // with seeds from `seed` on
};

struct PredictionOptions {
  EvaluatorKind evaluator = EvaluatorKind::simgrid;
  bool timeline = false;    // keep a span of every task
  bool every_step = false;  // also steps that can be shown to go on alike
  Repetitions repetitions{};
  // Called before each step of the first repetition of one request is evaluated.
  std::function<void(std::int32_t step, std::int32_t steps)> on_step{};
};

struct Prediction {
  model::Result result;  // of the first repetition; its environment has the spread over all
  model::Trace trace;    // of the first repetition; empty without a timeline
};

// The plan's own workload. Throws Error as the evaluators do.
[[nodiscard]] Prediction predict(const planner::Plan& plan, const PredictionOptions& options);

// Many requests, and how they are served: by a policy, or as a run has served them.
struct ServedWorkload {
  std::vector<planner::InferenceRequest> requests{};
  const planner::Policy* policy = nullptr;       // not read if there is a schedule
  std::int64_t chunk = 0;                        // most rows of prompts in a step; 0: any
  std::int64_t steps = 0;                        // in flight at most; 0: as the plan reserves
  std::vector<model::ScheduledStep> schedule{};  // the steps of that run; empty: by the policy
  std::optional<std::string> weights_sha256{};   // that the run says it used
};

// `served` on the plan's devices; every step is evaluated. Throws Error as the evaluators do.
[[nodiscard]] Prediction predict_served(const planner::Plan& plan, const ServedWorkload& served,
                                        const PredictionOptions& options);

// What predict_served's result says of the requests, and its rate, to 1e-9 (sim::evaluate_fair);
// nothing else is filled in. On SimGrid where anything varies.
[[nodiscard]] model::Result predict_served_fairly(const planner::Plan& plan,
                                                  const ServedWorkload& served);

// Throws Error, as a run would before it begins, unless every device's budget has what the run
// needs: the plan's own workload, or `served` if it is not null, with a timeline or without.
void check_memory(const planner::Plan& plan, const ServedWorkload* served, bool timeline);

// What the first two tokens wait for, by the same evaluator, as if nothing varied.
[[nodiscard]] model::Bottleneck bottleneck_of(planner::Plan plan, EvaluatorKind evaluator);

}  // namespace tandem::study
