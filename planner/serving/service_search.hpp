#pragma once

// The search for a plan that serves requests: the length of a prompt's chunks, the steps in flight,
// and the memory of both.

#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "planner/plan/inference_request.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {

// Returns the seconds that count of `plan`, which serves within its reserved capacity, with prompts
// in chunks of `chunk` rows (0: whole).
using ServiceClock = std::function<double(const Plan& plan, std::int64_t chunk)>;

// Returns the time of the objective by the analytic evaluator, which counts one evaluation. Copies
// the requests; `policy` outlives it.
[[nodiscard]] ServiceClock analytic_clock(std::span<const InferenceRequest> requests,
                                          const Policy& policy, Objective objective);

// The times of the plans that a search has read in chunks: it comes to the same shares from several
// sides, and refines no plans that are far behind.
class ReadingTimes {
 public:
  using Times = std::map<std::pair<std::int64_t, std::int64_t>, double>;  // by chunk and steps
  // Returns the times of `plan` and all others that differ in reserved memory only; the reference
  // stays valid.
  [[nodiscard]] Times& of(Plan plan);
  // Takes the seconds of a plan that was read roughly. Returns whether it may be the best once its
  // layers, chunks and steps are searched.
  [[nodiscard]] bool may_win(double roughly_read);

 private:
  double roughly_read_ = std::numeric_limits<double>::infinity();  // the least
  std::list<std::pair<Plan, Times>> known_;
};

struct Service {
  std::span<const InferenceRequest> requests;
  const Policy& policy;
  ServiceClock seconds;
  std::optional<std::int64_t> chunk{};  // rows of a prompt's chunks; 0: whole; none: as is best
  std::int64_t steps = 0;               // in flight; 0: as is best
  // By `seconds`, of all plans that compete; shared by copies, whose steps are the same.
  std::shared_ptr<ReadingTimes> times = std::make_shared<ReadingTimes>();
};

struct ServicePlan {
  Plan plan;
  std::int64_t chunk = 0;  // 0: whole prompts
};

// Returns a plan that fits, with the given chunk or else whole prompts or, where those do not fit
// with all weights, chunks of longest_fitting_step() rows; with useful_steps() in flight or, if
// given, Service::steps. Its clock is not read.
[[nodiscard]] std::variant<ServicePlan, Infeasible> make_fitting_plan(const Request& request,
                                                                      const Service& service);

// Returns a plan with the chunk and the steps in flight, as far as they are not given, that take
// the least time (chunk_search.hpp, steps_in_flight.hpp). Each is found for the other, again until
// neither saves time, from few steps and from many; of many requests chunks longer than a prompt,
// too, so that a step has several. Roughly: each once, among fewer. If weights stream, prompts are
// read as by make_fitting_plan. Throws Error as make_serving_plan does.
[[nodiscard]] std::variant<ServicePlan, Infeasible> make_service_plan(const Request& request,
                                                                      const Service& service,
                                                                      bool roughly = false);

// Returns the rows of a chunk that bring the first tokens of the first 16 of `requests` earliest,
// by the analytic evaluator, within the plan's reserved memory and with at most `steps` in flight
// (0: as many as it reserves); 0: whole prompts, as where weights stream.
[[nodiscard]] std::int64_t reserved_chunk(const Plan& plan,
                                          std::span<const InferenceRequest> requests,
                                          const Policy& policy, std::int64_t steps);

// Returns `made` with memory for the chunk and the steps in flight that are best for its shares.
// `request`: what it was made for.
[[nodiscard]] ServicePlan read_again(const Request& request, ServicePlan made,
                                     const Service& service, bool roughly = false);

}  // namespace tandem::planner
