#include "advice/prompt_chunks.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "advice/first_line.hpp"
#include "advice/least_bytes.hpp"
#include "model/base/error.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/serving/chunk_search.hpp"
#include "planner/serving/chunked_layers.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"
#include "sim/replay/replay.hpp"

namespace tandem::study {
namespace {

using planner::Infeasible;
using planner::InferenceRequest;
using planner::Objective;
using planner::Plan;
using planner::Request;
using planner::Workload;

constexpr double kSavesEnough = 1.0 - 1e-3;

const planner::Policy& policy() { return planner::find_policy("continuous"); }

std::vector<InferenceRequest> one_of(const Workload& workload) {
  return planner::samples_of(
      {.id = {}, .prompt_tokens = workload.prompt_tokens, .new_tokens = workload.new_tokens}, 1);
}

PromptPlan timed(Plan plan, Objective objective, std::int64_t chunk) {
  const double seconds = time_of(plan, objective, chunk);
  return {.plan = std::move(plan), .seconds = seconds, .chunk = chunk};
}

// Returns the best plan with the prompt read so, in chunks. Throws Error as make_layered_plan does,
// also where the strategy reads prompts whole.
std::variant<PromptPlan, Infeasible> plan_in_chunks(const Request& request,
                                                    const PromptReading& reading) {
  const std::vector<InferenceRequest> requests = one_of(request.workload);
  planner::Service service{
      .requests = requests,
      .policy = policy(),
      .seconds = [&](const Plan& plan,
                     std::int64_t chunk) { return time_of(plan, request.objective, chunk); },
      .steps = reading.steps};
  if (!reading.best) service.chunk = reading.rows;
  if (reading.times) service.times = reading.times;
  auto made = planner::make_layered_plan(request, service, reading.roughly);
  if (auto* const no = std::get_if<Infeasible>(&made)) return std::move(*no);
  auto& found = std::get<planner::ServicePlan>(made);
  if (found.chunk == 0) return Infeasible{"whole prompts take less time"};
  return timed(std::move(found.plan), request.objective, found.chunk);
}

// Returns a plan that fits with the prompt read so, in chunks. Throws Error as make_serving_plan
// does, also where the strategy reads prompts whole.
std::variant<FittingPlan, Infeasible> fit_in_chunks(const Request& request,
                                                    const PromptReading& reading) {
  Infeasible none;
  for (const Request& one : planner::requests_in_chunks(request)) {
    auto made = planner::make_serving_plan(one, one_of(request.workload), policy(), reading.rows,
                                           reading.steps);
    if (auto* const plan = std::get_if<Plan>(&made))
      return FittingPlan{.plan = std::move(*plan), .chunk = reading.rows};
    if (none.reason.empty()) none = std::get<Infeasible>(std::move(made));
  }
  return none;
}

// Returns the best plan in chunks of a pipeline, whose length is found, read so.
std::optional<PromptPlan> searched(const Request& request, const PromptReading& reading) {
  try {
    auto made = plan_in_chunks(request, reading);
    if (auto* const one = std::get_if<PromptPlan>(&made)) return std::move(*one);
  } catch (const Error&) {
    // The strategy reads prompts whole.
  }
  return std::nullopt;
}

// Returns the request with all its weights in memory.
Request resident(Request request) {
  request.window = {.blocks = 0, .retain = {}};
  return request;
}

// Returns a plan in the longest chunks that fit with all weights, or why not even one token does;
// the reason is empty if the strategy reads prompts whole.
std::variant<FittingPlan, Infeasible> in_short_steps(const Request& request, std::int64_t steps) {
  std::variant<FittingPlan, Infeasible> longest = Infeasible{};
  const auto fits = [&](std::int64_t rows) {
    try {
      auto made = fit_in_chunks(resident(request), {.rows = rows, .steps = steps});
      const bool fit = std::holds_alternative<FittingPlan>(made);
      if (fit || rows == 1) longest = std::move(made);
      return fit;
    } catch (const Error&) {
      return false;
    }
  };
  static_cast<void>(planner::longest_fitting_step(request.workload.prompt_tokens, fits));
  return longest;
}

// Returns why neither, by `steps`, single tokens of a prompt fit nor all of it. The former is the
// first line, which is all that short answers have.
Infeasible neither(Infeasible whole, const Infeasible& steps) {
  if (steps.reason.empty()) return whole;
  return {"read token by token (--chunk 1) with all weights in memory, " +
          first_line(steps.reason) + "\nread whole, " + whole.reason};
}

bool may_read_in_chunks(const Request& request) {
  return request.model.architecture().generates() && request.window.blocks.value_or(0) == 0 &&
         !planner::find_strategy(request.strategy).sharding.splits_positions();
}

std::variant<PromptPlan, Infeasible> best_reading(const Request& request,
                                                  const PromptReading& reading) {
  const std::int64_t steps = reading.steps;
  planner::Found found{.answer = Infeasible{"no chunks of the prompt for " + std::to_string(steps) +
                                            " steps in flight"}};
  if (steps < 2) found = planner::find_plan(request);
  std::variant<Plan, Infeasible>& whole = found.answer;
  std::optional<PromptPlan> best;
  auto* const plan = std::get_if<Plan>(&whole);
  const bool stays = plan != nullptr && !plan->streams();
  if (plan != nullptr) {
    best = timed(std::move(*plan), request.objective, 0);
    best->decisions = std::move(found.decisions);
  }
  const auto faster = [&](std::optional<PromptPlan> other) {
    if (other && (!best || other->seconds < best->seconds * kSavesEnough)) best = std::move(other);
  };
  Infeasible none;
  const auto short_steps = [&]() -> std::optional<PromptPlan> {
    auto fitting = in_short_steps(request, steps);
    if (auto* const no = std::get_if<Infeasible>(&fitting)) {
      none = std::move(*no);
      return std::nullopt;
    }
    const std::int64_t rows = std::get<FittingPlan>(fitting).chunk;
    auto made = plan_in_chunks(
        resident(request), {.rows = rows, .steps = steps, .roughly = reading.roughly, .times = {}});
    auto* const one = std::get_if<PromptPlan>(&made);
    return one != nullptr ? std::optional(std::move(*one)) : std::nullopt;
  };
  if (may_read_in_chunks(request)) {
    // Without a plan they say what lacks.
    if (!stays && (!best || may_be_resident(request))) faster(short_steps());
    if ((best || steps > 1) && request.objective != Objective::latency &&
        planner::find_strategy(request.strategy).sharding.splits_layers() &&
        request.cluster.size() > 1)
      faster(searched(request, reading));
  }
  if (!best) return neither(std::get<Infeasible>(std::move(whole)), none);
  return std::move(*best);
}

}  // namespace

ServedWorkload one_in_chunks(const Workload& workload, std::int64_t chunk) {
  return {.requests = one_of(workload), .policy = &policy(), .chunk = chunk, .schedule = {}};
}

bool is_one_in_chunks(const ServedWorkload& served) {
  return served.requests.size() == 1 && served.requests.front().arrival_s == 0.0 &&
         served.policy == &policy() && served.chunk > 0;
}

double time_of(const Plan& plan, Objective objective, std::int64_t chunk) {
  if (chunk == 0 || objective == Objective::latency)
    return planner::predicted_time(plan, objective, sim::extend_fair);
  planner::count_evaluation();
  Workload prompt = plan.workload;
  prompt.new_tokens = 1;
  const double first =
      predict_served_fairly(plan, one_in_chunks(prompt, chunk)).requests.front().ttft_s;
  if (objective == Objective::ttft || plan.workload.new_tokens < 2) return first;
  return planner::predicted_time(plan, objective, sim::extend_fair) -
         planner::predicted_time(plan, Objective::ttft, sim::extend_fair) + first;
}

std::variant<PromptPlan, Infeasible> plan_prompt(const Request& request,
                                                 const PromptReading& reading) {
  if (reading.best) return best_reading(request, reading);
  planner::check_in_flight(one_of(request.workload), reading.rows, reading.steps);
  if (reading.rows > 0 && reading.rows < request.workload.prompt_tokens)
    return plan_in_chunks(request, reading);
  planner::Found made = planner::find_plan(request);
  if (auto* const no = std::get_if<Infeasible>(&made.answer)) return std::move(*no);
  PromptPlan whole = timed(std::get<Plan>(std::move(made.answer)), request.objective, 0);
  whole.decisions = std::move(made.decisions);
  return whole;
}

std::variant<FittingPlan, Infeasible> fit_prompt(const Request& request,
                                                 const PromptReading& reading) {
  if (!reading.best && reading.rows > 0 && reading.rows < request.workload.prompt_tokens)
    return fit_in_chunks(request, reading);
  auto whole = planner::make_plan(request);
  if (auto* const plan = std::get_if<Plan>(&whole)) return FittingPlan{.plan = std::move(*plan)};
  if (reading.best && may_read_in_chunks(request)) {
    auto found = in_short_steps(request, reading.steps);
    auto* const no = std::get_if<Infeasible>(&found);
    if (no == nullptr) return found;
    // Steps of one token need the least memory, and nothing streams.
    if (request.window.blocks == 0 && !no->reason.empty())
      return Infeasible{"read token by token (--chunk 1), " + no->reason};
    return neither(std::get<Infeasible>(std::move(whole)), *no);
  }
  return std::get<Infeasible>(std::move(whole));
}

}  // namespace tandem::study
