#include "advice/ask.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "advice/first_line.hpp"
#include "advice/one_strategy.hpp"
#include "advice/searched_service.hpp"
#include "model/base/error.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

using planner::Infeasible;

}  // namespace

void Ask::set(std::string_view name, std::string value) {
  std::erase(without, name);
  const auto known = std::ranges::find(flags, name, &PlanFlag::name);
  if (known != flags.end())
    known->value = std::move(value);
  else
    flags.push_back({.name = std::string(name), .value = std::move(value)});
}

void Ask::leave_out(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    std::erase_if(flags, [&](const PlanFlag& flag) { return flag.name == name; });
    if (std::ranges::find(without, name) == without.end()) without.emplace_back(name);
  }
}

bool reads_whole(const planner::Request& request) {
  return !request.model.architecture().generates() || request.sparse ||
         request.rounds.value_or(1) > 1 || request.window.blocks.value_or(0) > 0 ||
         planner::find_strategy(request.strategy).sharding.splits_positions();
}

double planned_seconds(const Ask& ask, const PlanClock& clock) {
  if (!ask.served) {
    auto made = plan_prompt(ask.request, ask.prompt);
    if (const auto* const no = std::get_if<Infeasible>(&made)) throw Error(first_line(no->reason));
    const auto& found = std::get<PromptPlan>(made);
    if (found.chunk == 0) return clock(found.plan, nullptr);
    const ServedWorkload one = one_in_chunks(ask.request.workload, found.chunk);
    return clock(found.plan, &one);
  }
  ServedWorkload served = *ask.served;
  auto made = planner::make_service_plan(
      ask.request, searched_service(served, ask.request.objective, ask.best_chunk, served.steps),
      true);
  if (const auto* const no = std::get_if<Infeasible>(&made)) throw Error(first_line(no->reason));
  const auto& found = std::get<planner::ServicePlan>(made);
  served.chunk = found.chunk;
  return clock(found.plan, &served);
}

double searched_seconds(const Ask& ask, const PlanClock& clock, planner::SearchEffort& effort) {
  auto made = plan_strategy({.request = ask.request,
                             .keeps_axes = true,
                             .served = ask.served,
                             .best_chunk = ask.best_chunk,
                             .prompt = ask.prompt,
                             .effort = &effort});
  if (const auto* const no = std::get_if<Infeasible>(&made)) throw Error(first_line(no->reason));
  const auto& found = std::get<Contender>(made);
  if (!ask.served && found.chunk == 0) return clock(found.plan, nullptr);
  ServedWorkload served =
      ask.served ? *ask.served : one_in_chunks(ask.request.workload, found.chunk);
  served.chunk = found.chunk;
  return clock(found.plan, &served);
}

}  // namespace tandem::study
