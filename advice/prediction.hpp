#pragma once

// Predictions of a plan by the evaluators: for one request or many, once or with several seeds.

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
  simgrid,   // with contention for links
  analytic,  // without contention or variation
};
[[nodiscard]] std::string_view to_string(EvaluatorKind evaluator);

// The number of simulations of a cluster that varies.
struct Repetitions {
  bool varies = false;  // whether anything of the cluster varies, randomly or over time
  std::uint64_t seed = 1;
  std::int64_t count = 1;  // with seeds from `seed` on
};

struct PredictionOptions {
  EvaluatorKind evaluator = EvaluatorKind::simgrid;
  bool timeline = false;    // keep a span of every task
  bool every_step = false;  // also evaluates steps that could be extrapolated
  bool intervals = true;    // sets interval_90
  Repetitions repetitions{};
  // Called before each step of the first repetition of one request is evaluated.
  std::function<void(std::int32_t step, std::int32_t steps)> on_step{};
};

struct Prediction {
  model::Result result;  // of the first repetition; its environment has the spread over all
  model::Trace trace;    // of the first repetition; empty without a timeline
};

// Predicts the plan's own workload. Throws Error as the evaluators do.
[[nodiscard]] Prediction predict(const planner::Plan& plan, const PredictionOptions& options);

// Many requests and how they are served: by a policy, or with the steps of a run.
struct ServedWorkload {
  std::vector<planner::InferenceRequest> requests{};
  const planner::Policy* policy = nullptr;       // not read if there is a schedule
  std::int64_t chunk = 0;                        // most rows of prompts in a step; 0: no limit
  std::int64_t steps = 0;                        // in flight at most; 0: as the plan reserves
  std::vector<model::ScheduledStep> schedule{};  // the steps of a run; empty: by the policy
  std::optional<std::string> weights_sha256{};   // of the weights that the run used
  bool shares_prefixes = false;  // where the plan can (planner/serving/prefix_sharing.hpp)
  // Whether the policy learns of a request at its arrival, as in a service, and not before.
  bool live = false;
};

// Predicts `served` on the plan's devices, evaluating every step. Throws Error as the evaluators
// do.
[[nodiscard]] Prediction predict_served(const planner::Plan& plan, const ServedWorkload& served,
                                        const PredictionOptions& options);

// Returns the requests' results and rate of predict_served, to 1e-9 (sim::evaluate_fair), and
// nothing else. Uses SimGrid if anything varies.
[[nodiscard]] model::Result predict_served_fairly(const planner::Plan& plan,
                                                  const ServedWorkload& served);

// What `predict` or, if `served` is not null, `predict_served` says of times, with intervals, to
// 1e-9 and as if nothing varied (sim::extend_fair), and of what devices do; nothing else
// is filled in. `with_memory`: with what both say of the devices' peak memory, too.
[[nodiscard]] model::Result predict_fairly(planner::Plan plan, const ServedWorkload* served,
                                           bool with_memory = false);

// Throws Error, as a run would at its start, unless every device's budget has the memory that the
// run needs: for the plan's own workload, or for `served` if it is not null, with or without a
// timeline.
void check_memory(const planner::Plan& plan, const ServedWorkload* served, bool timeline);

// Returns what the first two tokens wait for, by the same evaluator without variation, with links
// shared or not (simgrid: by sim::evaluate_fair, equal to 1e-9): of the
// plan's own workload, or of `served`, one request, if it is not null. Of a prompt read in more
// than 256 steps, the last 256 stand for all: then the prompt's times sum to less than TTFT.
[[nodiscard]] model::Bottleneck bottleneck_of(planner::Plan plan, EvaluatorKind evaluator,
                                              const ServedWorkload* served = nullptr);

}  // namespace tandem::study
