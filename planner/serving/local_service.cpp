#include "planner/serving/local_service.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/search/local_plan.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

constexpr std::int64_t kTogether = 4;
constexpr std::int64_t kMostPositions = 8192;
constexpr std::int64_t kLeastPositions = 512;
constexpr std::int64_t kChunk = 256;     // rows of prompts beside decoding
constexpr std::int64_t kLeastText = 64;  // tokens that an encoder reads at least

// An encoder reads one text at a time, as long a one as there is memory for.
std::variant<LiveService, Infeasible> encoder_here(const model::Transformer& transformer,
                                                   model::Bytes memory) {
  std::variant<Plan, Infeasible> answer = Infeasible{};
  for (const bool streams : {false, true}) {
    for (std::int64_t most = std::min(transformer.max_context, kMostPositions);; most /= 2) {
      Request request = request_here(transformer, {.prompt_tokens = most, .new_tokens = 0}, memory);
      if (!streams) request.window.blocks = 0;
      answer = make_plan(request);
      if (auto* const plan = std::get_if<Plan>(&answer))
        return live_service(std::move(*plan), std::nullopt);
      if (most / 2 < kLeastText) break;
    }
  }
  return std::get<Infeasible>(std::move(answer));
}

}  // namespace

LiveService live_service(Plan plan, const std::optional<PlannedService>& planned) {
  check_serves_many(plan);
  const bool generates = plan.model.architecture().generates();
  LiveService service{.plan = std::move(plan),
                      .policy = &find_policy(generates ? "continuous" : "sequential")};
  if (planned && generates) {
    service.policy = &find_policy(planned->policy);
    service.chunk = planned->chunk;
    service.steps = planned->in_flight;
  }
  service.capacity = serving_capacity(service.plan, service.steps);
  if (!planned && generates && reads_chunks(service.plan)) service.chunk = service.capacity.rows;
  return service;
}

std::int64_t longest_text(const LiveService& service) {
  return std::min(service.plan.model.max_context, service.capacity.rows);
}

std::variant<LiveService, Infeasible> service_here(const model::Transformer& transformer,
                                                   model::Bytes memory) {
  if (!transformer.architecture().generates()) return encoder_here(transformer, memory);
  const Policy& policy = find_policy("continuous");
  std::variant<Plan, Infeasible> answer = Infeasible{};
  std::int64_t chunk = kChunk;
  const auto found = [&](std::int64_t together, bool streams) {
    for (std::int64_t most = std::min(transformer.max_context, kMostPositions);; most /= 2) {
      const InferenceRequest one{
          .id = "live", .prompt_tokens = most - most / 2, .new_tokens = most / 2};
      Request request = request_here(transformer, {.prompt_tokens = 1, .new_tokens = 1}, memory);
      if (!streams) request.window.blocks = 0;
      answer = make_serving_plan(request, samples_of(one, together), policy, chunk);
      if (std::holds_alternative<Plan>(answer)) return true;
      if (most / 2 < kLeastPositions) return false;
    }
  };
  bool good = found(kTogether, false);
  if (!good) {
    chunk = 0;  // each step reads all streamed weights
    good = found(1, true);
  }
  if (!good) return std::get<Infeasible>(std::move(answer));
  LiveService service{.plan = std::get<Plan>(std::move(answer)), .policy = &policy, .chunk = chunk};
  service.capacity = serving_capacity(service.plan, 0);
  return service;
}

std::variant<ServicePlan, Infeasible> plan_prompt_here(const model::Transformer& transformer,
                                                       const Workload& workload,
                                                       model::Bytes memory,
                                                       std::optional<std::int64_t> chunk) {
  const Request request = request_here(transformer, workload, memory);
  const bool is_whole = !transformer.architecture().generates() ||
                        (chunk && (*chunk == 0 || *chunk >= workload.prompt_tokens));
  std::variant<Plan, Infeasible> whole = Infeasible{};
  if (is_whole || !chunk) {
    whole = make_plan(request);
    const auto* const plan = std::get_if<Plan>(&whole);
    if (plan != nullptr && (is_whole || !plan->streams())) return ServicePlan{.plan = *plan};
  }
  if (is_whole) return std::get<Infeasible>(std::move(whole));
  const std::vector<InferenceRequest> requests = samples_of(
      {.id = {}, .prompt_tokens = workload.prompt_tokens, .new_tokens = workload.new_tokens}, 1);
  auto made = make_fitting_plan(
      request,
      {.requests = requests, .policy = find_policy("continuous"), .seconds = {}, .chunk = chunk});
  const auto* const found = std::get_if<ServicePlan>(&made);
  if (chunk || (found != nullptr && found->chunk > 0)) return made;
  if (auto* const plan = std::get_if<Plan>(&whole)) return ServicePlan{.plan = std::move(*plan)};
  return std::get<Infeasible>(std::move(whole));
}

}  // namespace tandem::planner
