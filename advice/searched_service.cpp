#include "advice/searched_service.hpp"

#include <algorithm>
#include <memory>

#include "model/cluster/variation.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/serving/service_objective.hpp"

namespace tandem::study {
namespace {

constexpr std::size_t kConsidered = 16;
constexpr std::int64_t kMostNewTokens = 64;

// The first of the requests, of their tokens, and all steps in flight that a plan reserves.
ServedWorkload considered(const ServedWorkload& served, planner::Objective objective) {
  ServedWorkload first = served;
  first.steps = 0;
  first.requests.resize(std::min(first.requests.size(), kConsidered));
  // First tokens of many requests wait for new tokens of others.
  const bool only_first = objective == planner::Objective::ttft && first.requests.size() == 1;
  const std::int64_t most = only_first ? 1 : kMostNewTokens;
  for (planner::InferenceRequest& request : first.requests)
    request.new_tokens = std::min(most, request.new_tokens);
  return first;
}

}  // namespace

planner::Service searched_service(const ServedWorkload& served, planner::Objective objective,
                                  bool best_chunk, std::int64_t steps) {
  const auto first = std::make_shared<ServedWorkload>(considered(served, objective));
  planner::Service service{
      .requests = served.requests,
      .policy = *served.policy,
      .seconds =
          [first, objective](const planner::Plan& plan, std::int64_t chunk) {
            planner::count_evaluation();
            first->chunk = chunk;
            if (model::variation(plan.cluster).empty())
              return planner::service_time(predict_served_fairly(plan, *first), objective);
            planner::Plan steady = plan;
            steady.cluster = model::without_variation(plan.cluster);
            return planner::service_time(predict_served_fairly(steady, *first), objective);
          },
      .steps = steps};
  if (!best_chunk) service.chunk = served.chunk;
  return service;
}

}  // namespace tandem::study
