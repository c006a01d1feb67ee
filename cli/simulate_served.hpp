#pragma once

// What `tandem simulate` does for many requests, and what it shares with the prediction of one.

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags/options.hpp"
#include "cli/flags/shown.hpp"
#include "cli/flags/workload.hpp"
#include "model/result.hpp"
#include "model/scheduler.hpp"
#include "planner/plan.hpp"

namespace tandem::cli {

// What is simulated more than once.
struct Repetitions {
  bool varies = false;  // anything at all, by chance or in time
  std::uint64_t seed = 1;
  std::int64_t count = 1;
};

// Sets the environment's seed, their number and the spread of `values`, by name.
void describe(const Repetitions& repetitions,
              const std::map<std::string, std::vector<double>>& values, model::Result& result);
// What describe() has set; nothing without it.
void print_repetitions(const model::Result& result, std::ostream& out);

// The prediction that `recorder` holds, with what identifies it.
[[nodiscard]] model::Result predicted_result(const planner::Plan& plan,
                                             const std::string& evaluator,
                                             const model::RunRecorder& recorder);

// Requests, and how they are served: by a policy, or as a run has served them.
struct ServedRun {
  Served served;
  std::vector<model::ScheduledStep> schedule{};  // of that run; empty: by the policy
};

// By --workload or --schedule; nothing without either. Throws Usage for both, Error for what the
// plan cannot serve.
[[nodiscard]] std::optional<ServedRun> served_run(const Options& options,
                                                  const planner::Plan& plan);

struct Simulation {
  Shown show;
  std::string evaluator;
  std::optional<std::string> trace;
  Repetitions repetitions;
};

// Predicts, writes and prints; the exit code.
int simulate_served(const planner::Plan& plan, const ServedRun& run, const Simulation& how,
                    std::ostream& out);

}  // namespace tandem::cli
