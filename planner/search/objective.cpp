#include "planner/search/objective.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

// The steps of a generation, each of which may be the last before a search is given up. On many
// devices a step takes a second. What varies is replayed in a child process, which knows of no
// search.
class InterruptibleSteps : public model::Steps {
 public:
  InterruptibleSteps(const Plan& plan, const Workload& workload)
      : steps_(plan, workload), is_here_(model::variation(plan.cluster).empty()) {}
  [[nodiscard]] std::int32_t count() const override { return steps_.count(); }
  const model::TaskGraph& graph(std::int32_t i) override {
    if (is_here_) abandon_if_overdue();
    return steps_.graph(i);
  }
  [[nodiscard]] bool any_order() const override { return steps_.any_order(); }
  [[nodiscard]] std::optional<std::vector<model::Channel>> channels() override {
    return steps_.channels();
  }

 private:
  GenerationSteps steps_;
  bool is_here_;
};

}  // namespace

std::string_view to_string(Objective objective) {
  switch (objective) {
    case Objective::request:
      return "request";
    case Objective::throughput:
      return "throughput";
    case Objective::ttft:
      return "ttft";
    case Objective::latency:
      return "latency";
  }
  return "";
}

void check_objective(const Workload& workload, Objective objective) {
  if (objective == Objective::latency && workload.new_tokens < 2) {
    throw Error("objective latency: " + std::to_string(workload.new_tokens) +
                " new tokens, expected at least 2, which have a time between them; ask for more, "
                "or for objective ttft");
  }
}

double predicted_time(const Plan& plan, Objective objective, const Evaluator& evaluate) {
  Workload workload = plan.workload;
  if (objective == Objective::ttft)
    workload.new_tokens = std::min<std::int64_t>(1, workload.new_tokens);
  check_objective(workload, objective);
  count_evaluation();
  InterruptibleSteps steps(plan, workload);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  evaluate(plan.cluster, plan.cost_model(), steps, recorder);
  const model::Metrics metrics = recorder.metrics();
  // An encoder's pass samples nothing.
  if (metrics.token_times_s.empty()) return metrics.ttft_s;
  if (objective != Objective::latency) return metrics.token_times_s.back();
  return (metrics.token_times_s.back() - metrics.token_times_s.front()) /
         static_cast<double>(workload.new_tokens - 1);
}

}  // namespace tandem::planner
