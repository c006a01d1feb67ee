#include "advice/prompt_chunks.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/serving/chunk_search.hpp"
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
// Longest first. The largest is llama.cpp's micro-batch.
constexpr std::array<std::int64_t, 4> kShortSteps{512, 256, 128, 64};

const planner::Policy& policy() { return planner::find_policy("continuous"); }

std::vector<InferenceRequest> one_of(const Workload& workload) {
  return planner::samples_of(
      {.id = {}, .prompt_tokens = workload.prompt_tokens, .new_tokens = workload.new_tokens}, 1);
}

// Of an answer of the planner; Errors are reasons, too: some strategies serve no requests.
std::optional<Plan> served_plan(const Request& request, std::int64_t chunk, std::string& reason) {
  try {
    auto made = planner::make_serving_plan(request, one_of(request.workload), policy(), chunk);
    if (auto* const plan = std::get_if<Plan>(&made)) return std::move(*plan);
    reason = std::get<Infeasible>(made).reason;
  } catch (const Error& error) {
    reason = error.what();
  }
  return std::nullopt;
}

// Keeps the faster plan in `best`.
void consider(std::optional<PromptPlan>& best, Plan plan, Objective objective, std::int64_t chunk) {
  const double seconds = time_of(plan, objective, chunk);
  if (!best || seconds < best->seconds * kSavesEnough)
    best = PromptPlan{.plan = std::move(plan), .seconds = seconds, .chunk = chunk};
}

// Returns the request, and where layers are to be split the same for balanced stages.
std::vector<Request> with_balanced(const Request& request) {
  std::vector<Request> both{request};
  if (!planner::find_strategy(request.strategy).sharding.splits_layers() ||
      request.partition != planner::kAutoPartition)
    return both;
  both.push_back(request);
  both.back().objective = Objective::throughput;
  return both;
}

// The best plan in chunks of a pipeline, whose length is found.
std::optional<PromptPlan> searched(const Request& request) {
  std::optional<PromptPlan> best;
  for (const Request& one : with_balanced(request)) {
    if (best && planner::search_ended()) break;
    try {
      auto made = planner::make_chunked_plan(one, one_of(request.workload), policy(), 0);
      auto* const found = std::get_if<planner::ChunkedPlan>(&made);
      if (found != nullptr && found->chunk > 0)
        consider(best, std::move(found->plan), request.objective, found->chunk);
    } catch (const Error&) {
      // The strategy reads prompts whole.
    }
  }
  return best;
}

// Returns the best plan in chunks of so many rows.
std::variant<PromptPlan, Infeasible> plan_in_chunks(const Request& request, std::int64_t chunk) {
  std::optional<PromptPlan> best;
  std::string reason;
  for (const Request& one : with_balanced(request)) {
    if (std::optional<Plan> plan = served_plan(one, chunk, reason))
      consider(best, std::move(*plan), request.objective, chunk);
  }
  if (!best) return Infeasible{std::move(reason)};
  return std::move(*best);
}

// Returns a plan that fits in chunks of so many rows.
std::variant<FittingPlan, Infeasible> fit_in_chunks(const Request& request, std::int64_t chunk) {
  std::string reason;
  for (const Request& one : with_balanced(request)) {
    if (std::optional<Plan> plan = served_plan(one, chunk, reason))
      return FittingPlan{.plan = std::move(*plan), .chunk = chunk};
  }
  return Infeasible{std::move(reason)};
}

// Returns the plan in the longest chunks that fit with all weights; nothing if none do.
std::optional<PromptPlan> in_short_steps(Request request) {
  request.window = {.blocks = 0, .retain = {}};
  for (const std::int64_t chunk : kShortSteps) {
    if (chunk >= request.workload.prompt_tokens) continue;
    auto made = plan_in_chunks(request, chunk);
    if (auto* const plan = std::get_if<PromptPlan>(&made)) return std::move(*plan);
  }
  return std::nullopt;
}

std::variant<PromptPlan, Infeasible> best_reading(const Request& request) {
  auto whole = planner::make_plan(request);
  std::optional<PromptPlan> best;
  auto* const plan = std::get_if<Plan>(&whole);
  const bool generates = request.model.architecture().generates();
  const bool stays = plan != nullptr && !plan->streams();
  if (plan != nullptr) consider(best, std::move(*plan), request.objective, 0);
  const auto faster = [&](std::optional<PromptPlan> other) {
    if (other && (!best || other->seconds < best->seconds * kSavesEnough)) best = std::move(other);
  };
  const bool may_stay = request.window.blocks.value_or(0) == 0;
  if (generates && may_stay && !stays) faster(in_short_steps(request));
  if (generates && may_stay && best && request.objective != Objective::latency &&
      planner::find_strategy(request.strategy).sharding.splits_layers() &&
      request.cluster.size() > 1)
    faster(searched(request));
  if (!best) return std::get<Infeasible>(std::move(whole));
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
  if (reading.best) return best_reading(request);
  if (reading.rows > 0 && reading.rows < request.workload.prompt_tokens)
    return plan_in_chunks(request, reading.rows);
  auto made = planner::make_plan(request);
  if (auto* const no = std::get_if<Infeasible>(&made)) return std::move(*no);
  std::optional<PromptPlan> whole;
  consider(whole, std::get<Plan>(std::move(made)), request.objective, 0);
  return std::move(*whole);
}

std::variant<FittingPlan, Infeasible> fit_prompt(const Request& request,
                                                 const PromptReading& reading) {
  const std::int64_t prompt = request.workload.prompt_tokens;
  if (!reading.best && reading.rows > 0 && reading.rows < prompt)
    return fit_in_chunks(request, reading.rows);
  auto whole = planner::make_plan(request);
  if (auto* const plan = std::get_if<Plan>(&whole)) return FittingPlan{.plan = std::move(*plan)};
  auto& no = std::get<Infeasible>(whole);
  if (!reading.best || prompt <= kShortSteps.back() || request.window.blocks.value_or(0) != 0 ||
      !request.model.architecture().generates())
    return std::move(no);
  Request resident = request;
  resident.window = {.blocks = 0, .retain = {}};
  // Shorter steps need less: where the shortest do not fit, none do.
  auto shortest = fit_in_chunks(resident, kShortSteps.back());
  if (std::holds_alternative<Infeasible>(shortest)) return std::move(no);
  for (const std::int64_t chunk : kShortSteps) {
    if (chunk >= prompt || chunk == kShortSteps.back()) continue;
    auto longer = fit_in_chunks(resident, chunk);
    if (auto* const found = std::get_if<FittingPlan>(&longer)) return std::move(*found);
  }
  return shortest;
}

}  // namespace tandem::study
