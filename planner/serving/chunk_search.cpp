#include "planner/serving/chunk_search.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/predict/analytic.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/serving/prefix_sharing.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/service_objective.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

constexpr std::int64_t kMostChunks = 256;
constexpr std::int64_t kMostChunksOfMany = 32;
constexpr std::size_t kConsidered = 16;
constexpr std::int64_t kMostNewTokens = 64;
constexpr std::int64_t kLongestStep = 512;
constexpr double kHardlyLonger = 1.0 + 1e-3;

std::int64_t longest(std::span<const InferenceRequest> requests) {
  std::int64_t rows = 1;
  for (const InferenceRequest& request : requests) rows = std::max(rows, request.prompt_tokens);
  return rows;
}

// What is evaluated for chunks: the first of the requests and of their tokens.
struct Considered {
  std::vector<InferenceRequest> requests;
  Objective objective;

  Considered(std::span<const InferenceRequest> all, Objective of)
      : requests(all.begin(),
                 all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kConsidered))),
        objective(all.size() == 1 ? Objective::ttft : of) {
    const std::int64_t most = objective == Objective::ttft ? 1 : kMostNewTokens;
    for (InferenceRequest& request : requests)
      request.new_tokens = std::min(most, request.new_tokens);
  }
};

double seconds_of(const Plan& plan, const Considered& considered, const Policy& policy,
                  std::int64_t chunk, const Capacity& capacity) {
  count_evaluation();
  RequestScheduler scheduler(considered.requests, policy,
                             {.chunk = chunk,
                              .capacity = capacity,
                              .shares_prefixes = states_prefixes(considered.requests) &&
                                                 prefix_refusal(plan, considered.requests).empty(),
                              .places = CachePlaces(plan)});
  GraphCache graphs(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  model::Result result;
  fill_requests(considered.requests, recorder.served(), result);
  return service_time(result, considered.objective);
}

// Within which capacity chunks of a length are read; nothing if they can't.
using CapacityOf = std::function<std::optional<Capacity>(std::int64_t chunk)>;

class ChunkSearch {
 public:
  ChunkSearch(const Plan& plan, const Considered& considered, const Policy& policy,
              CapacityOf capacity_of)
      : plan_(plan),
        considered_(considered),
        longest_(longest(considered.requests)),
        policy_(policy),
        capacity_of_(std::move(capacity_of)) {}

  std::int64_t find() {
    if (plan_.streams() || !plan_.model.architecture().generates()) return 0;
    const bool many = considered_.requests.size() > 1;
    const std::int64_t most = std::min(many ? kMostChunksOfMany : kMostChunks, longest_);
    std::vector<std::int64_t> counts;
    for (std::int64_t power = 1; power <= most; power *= 2) {
      counts.push_back(power);
      if (!many && power > 1 && power * 3 / 2 <= most) counts.push_back(power * 3 / 2);
    }
    for (const std::int64_t count : counts) consider(count);
    const auto at = std::ranges::find(counts, best_count_);
    const std::int64_t from = at == counts.begin() ? 1 : *(at - 1);
    const std::int64_t to = at + 1 < counts.end() ? *(at + 1) : most;
    const std::int64_t between = std::max<std::int64_t>(1, (to - from) / (many ? 4 : 16));
    for (std::int64_t count = from; count <= to; count += between) consider(count);
    return chunk_of(best_count_);
  }

 private:
  [[nodiscard]] std::int64_t chunk_of(std::int64_t count) const {
    return count == 1 ? 0 : (longest_ + count - 1) / count;
  }

  void consider(std::int64_t count) {
    const std::int64_t chunk = chunk_of(count);
    const auto [at, fresh] = times_.try_emplace(chunk, std::numeric_limits<double>::infinity());
    if (!fresh || search_ended()) return;
    const std::optional<Capacity> capacity = capacity_of_(chunk);
    if (!capacity) return;
    at->second = seconds_of(plan_, considered_, policy_, chunk, *capacity);
    if (at->second >= best_time_ * kBetter) return;
    best_time_ = at->second;
    best_count_ = count;
  }

  const Plan& plan_;
  const Considered& considered_;
  std::int64_t longest_;
  const Policy& policy_;
  CapacityOf capacity_of_;
  std::map<std::int64_t, double> times_;  // by chunk
  double best_time_ = std::numeric_limits<double>::infinity();
  std::int64_t best_count_ = 1;
};

// Returns whether more steps in flight than useful_steps() may help: chunks of one prompt on
// stages.
bool may_fly(const Request& request, std::span<const InferenceRequest> requests,
             const Policy& policy) {
  return requests.size() == 1 && useful_steps(request, policy) > 1;
}

std::int64_t most_useful(const Request& request, std::span<const InferenceRequest> requests,
                         const Policy& policy, std::int64_t steps) {
  if (steps > 0) return steps;
  return may_fly(request, requests, policy) ? kMostSteps : useful_steps(request, policy);
}

// The plan with so many steps in flight, or why there is none.
using WithSteps = std::function<std::variant<Plan, Infeasible>(std::int64_t in_flight)>;

// Returns with(steps) or, of one request on stages with `steps` 0, with as many as
// make_plan_in_flight() describes.
std::variant<Plan, Infeasible> with_enough_in_flight(const Request& request,
                                                     std::span<const InferenceRequest> requests,
                                                     const Policy& policy, std::int64_t chunk,
                                                     std::int64_t steps, const WithSteps& with) {
  if (steps > 0 || !may_fly(request, requests, policy) || search_ended()) return with(steps);
  const std::int64_t usual = useful_steps(request, policy);
  const Considered considered(requests, Objective::ttft);
  for (std::int64_t most = most_in_flight(requests, chunk); most > usual; most /= 2) {
    std::variant<Plan, Infeasible> answer = with(most);
    const auto* const plan = std::get_if<Plan>(&answer);
    if (plan == nullptr) continue;
    const auto seconds = [&](std::int64_t in_flight) {
      return seconds_of(*plan, considered, policy, chunk, serving_capacity(*plan, in_flight));
    };
    const double enough = seconds(most) * kHardlyLonger;
    std::int64_t fewest = usual;
    for (std::int64_t sufficient = most; fewest < sufficient;) {
      const std::int64_t middle = (fewest + sufficient) / 2;
      if (seconds(middle) <= enough)
        sufficient = middle;
      else
        fewest = middle + 1;
    }
    return fewest == most ? std::move(answer) : with(fewest);
  }
  return with(0);
}

}  // namespace

std::int64_t best_chunk(const Plan& plan, std::span<const InferenceRequest> requests,
                        const Policy& policy, Objective objective, std::int64_t steps) {
  const Capacity capacity = serving_capacity(plan, steps);
  const Considered considered(requests, objective);
  return ChunkSearch(plan, considered, policy,
                     [&](std::int64_t chunk) -> std::optional<Capacity> {
                       const Capacity need = least_capacity(requests, chunk);
                       if (need.rows > capacity.rows) return std::nullopt;
                       return capacity;
                     })
      .find();
}

std::int64_t longest_fitting_step(std::int64_t prompt,
                                  const std::function<bool(std::int64_t)>& fits) {
  if (prompt < 2 || !fits(1)) return 0;
  for (std::int64_t rows = kLongestStep; rows > 1; rows /= 2) {
    if (rows < prompt && fits(rows)) return rows;
  }
  return 1;
}

std::variant<Plan, Infeasible> make_plan_in_flight(const Request& request,
                                                   std::span<const InferenceRequest> requests,
                                                   const Policy& policy, std::int64_t chunk,
                                                   std::int64_t steps) {
  return with_enough_in_flight(
      request, requests, policy, chunk, steps, [&](std::int64_t in_flight) {
        return make_serving_plan(request, requests, policy, chunk, in_flight);
      });
}

std::optional<ChunkedPlan> read_again(const Request& request, const Plan& plan,
                                      std::span<const InferenceRequest> requests,
                                      const Policy& policy, std::int64_t chunk,
                                      std::int64_t steps) {
  if (chunk == 0) {
    const Considered considered(requests, request.objective);
    const std::int64_t most = most_useful(request, requests, policy, steps);
    chunk = ChunkSearch(plan, considered, policy, [&](std::int64_t rows) {
              return std::optional(wanted_capacity(considered.requests, policy, rows, most));
            }).find();
    if (chunk == 0) return std::nullopt;
  }
  const auto with = [&](std::int64_t in_flight) -> std::variant<Plan, Infeasible> {
    const std::int64_t wanted = in_flight > 0 ? in_flight : useful_steps(request, policy);
    Plan again = plan;
    again.capacity = wanted_capacity(requests, policy, chunk, wanted);
    again = with_predicted_memory(std::move(again));
    if (!fits(again)) return Infeasible{};
    return again;
  };
  auto answer = with_enough_in_flight(request, requests, policy, chunk,
                                      std::min(steps, most_in_flight(requests, chunk)), with);
  if (std::holds_alternative<Infeasible>(answer)) return std::nullopt;
  return ChunkedPlan{.plan = std::get<Plan>(std::move(answer)), .chunk = chunk};
}

std::variant<ChunkedPlan, Infeasible> make_fitting_plan(const Request& request,
                                                        std::span<const InferenceRequest> requests,
                                                        const Policy& policy, std::int64_t steps) {
  // Whole prompts, and long chunks, may have fewer steps to do at once than are wanted.
  const auto plan_for = [&](const Request& one, std::int64_t chunk) {
    return make_serving_plan(one, requests, policy, chunk,
                             std::min(steps, most_in_flight(requests, chunk)));
  };
  std::variant<Plan, Infeasible> whole = plan_for(request, 0);
  const auto* const plan = std::get_if<Plan>(&whole);
  const bool may_stay = request.window.blocks.value_or(0) == 0;
  if ((plan == nullptr || plan->streams()) && may_stay &&
      request.model.architecture().generates()) {
    Request resident = request;
    resident.window = {.blocks = 0, .retain = {}};
    std::optional<Plan> fitting;
    const std::int64_t rows = longest_fitting_step(longest(requests), [&](std::int64_t chunk) {
      try {
        std::variant<Plan, Infeasible> made = plan_for(resident, chunk);
        auto* const found = std::get_if<Plan>(&made);
        if (found != nullptr) fitting = std::move(*found);
        return found != nullptr;
      } catch (const Error&) {  // the strategy reads prompts whole
        return false;
      }
    });
    if (rows > 0) return ChunkedPlan{.plan = std::move(*fitting), .chunk = rows};
  }
  if (auto* const no = std::get_if<Infeasible>(&whole)) return std::move(*no);
  return ChunkedPlan{.plan = std::get<Plan>(std::move(whole)), .chunk = 0};
}

std::variant<ChunkedPlan, Infeasible> make_chunked_plan(const Request& request,
                                                        std::span<const InferenceRequest> requests,
                                                        const Policy& policy, std::int64_t steps) {
  auto fitting = make_fitting_plan(request, requests, policy, steps);
  if (auto* const no = std::get_if<Infeasible>(&fitting)) return std::move(*no);
  auto& made = std::get<ChunkedPlan>(fitting);
  if (!reads_chunks(made.plan)) return std::move(made);
  const Considered considered(requests, request.objective);
  const std::int64_t most = most_useful(request, requests, policy, steps);
  const std::int64_t longest_chunk = made.chunk;
  const std::int64_t best =
      ChunkSearch(made.plan, considered, policy, [&](std::int64_t rows) -> std::optional<Capacity> {
        if (longest_chunk > 0 && (rows == 0 || rows > longest_chunk)) return std::nullopt;
        return wanted_capacity(considered.requests, policy, rows, most);
      }).find();
  if (best > 0 && best != made.chunk) {
    auto chunked = make_plan_in_flight(request, requests, policy, best,
                                       std::min(steps, most_in_flight(requests, best)));
    if (auto* const plan = std::get_if<Plan>(&chunked)) {
      // Its shares may be others, and so the best length; a search that ends finds none.
      std::int64_t found =
          requests.size() > 1 ? best : best_chunk(*plan, requests, policy, request.objective, 0);
      if (found == 0 || found > plan->reserved().rows) found = best;
      const auto seconds = [&](const Plan& of, std::int64_t chunk) {
        return seconds_of(of, considered, policy, chunk, of.reserved());
      };
      if (seconds(*plan, found) < seconds(made.plan, made.chunk) * kBetter)
        made = {.plan = std::move(*plan), .chunk = found};
    }
  }
  check_in_flight(requests, made.chunk, steps);
  return std::move(made);
}

}  // namespace tandem::planner
