#include "planner/serving/chunk_search.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "model/predict/analytic.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

constexpr std::int64_t kMostChunks = 256;
constexpr std::size_t kConsidered = 16;

// Returns the requests' prompts: later tokens do not matter.
std::vector<InferenceRequest> prompts_of(std::span<const InferenceRequest> requests) {
  std::vector<InferenceRequest> prompts(
      requests.begin(),
      requests.begin() + static_cast<std::ptrdiff_t>(std::min(requests.size(), kConsidered)));
  for (InferenceRequest& prompt : prompts)
    prompt.new_tokens = std::min<std::int64_t>(1, prompt.new_tokens);
  return prompts;
}

std::int64_t longest(std::span<const InferenceRequest> requests) {
  std::int64_t rows = 1;
  for (const InferenceRequest& request : requests) rows = std::max(rows, request.prompt_tokens);
  return rows;
}

// Within which capacity chunks of a length are read; nothing if they can't.
using CapacityOf = std::function<std::optional<Capacity>(std::int64_t chunk)>;

class ChunkSearch {
 public:
  ChunkSearch(const Plan& plan, std::span<const InferenceRequest> requests, const Policy& policy,
              CapacityOf capacity_of)
      : plan_(plan),
        prompts_(prompts_of(requests)),
        longest_(longest(prompts_)),
        policy_(policy),
        capacity_of_(std::move(capacity_of)) {}

  std::int64_t find() {
    if (plan_.streams() || !plan_.model.architecture().generates()) return 0;
    const std::int64_t most = std::min(kMostChunks, longest_);
    std::vector<std::int64_t> counts;  // 1, 2, 3, 4, 6, 8, 12, ...
    for (std::int64_t power = 1; power <= most; power *= 2) {
      counts.push_back(power);
      if (power > 1 && power * 3 / 2 <= most) counts.push_back(power * 3 / 2);
    }
    for (const std::int64_t count : counts) consider(count);
    const auto at = std::ranges::find(counts, best_count_);
    const std::int64_t from = at == counts.begin() ? 1 : *(at - 1);
    const std::int64_t to = at + 1 < counts.end() ? *(at + 1) : most;
    const std::int64_t between = std::max<std::int64_t>(1, (to - from) / 16);
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
    count_evaluation();
    const std::optional<Capacity> capacity = capacity_of_(chunk);
    if (!capacity) return;
    at->second = mean_first_token(chunk, *capacity);
    if (at->second >= best_time_ * kBetter) return;
    best_time_ = at->second;
    best_count_ = count;
  }

  [[nodiscard]] double mean_first_token(std::int64_t chunk, const Capacity& capacity) const {
    RequestScheduler scheduler(prompts_, policy_, {.chunk = chunk, .capacity = capacity});
    GraphCache graphs(plan_);
    model::RunRecorder recorder(plan_.cluster, plan_.master, false);
    model::evaluate_scheduled(plan_.cluster, plan_.cost_model(), scheduler, graphs, recorder);
    double sum = 0.0;
    for (const model::RequestResult& result : request_results(prompts_, recorder.served()))
      sum += result.ttft_s;
    return sum / static_cast<double>(prompts_.size());
  }

  const Plan& plan_;
  std::vector<InferenceRequest> prompts_;
  std::int64_t longest_;
  const Policy& policy_;
  CapacityOf capacity_of_;
  std::map<std::int64_t, double> times_;  // by chunk
  double best_time_ = std::numeric_limits<double>::infinity();
  std::int64_t best_count_ = 1;
};

}  // namespace

std::int64_t best_chunk(const Plan& plan, std::span<const InferenceRequest> requests,
                        const Policy& policy, std::int64_t steps) {
  const Capacity capacity = serving_capacity(plan, steps);
  return ChunkSearch(plan, requests, policy,
                     [&](std::int64_t chunk) -> std::optional<Capacity> {
                       const Capacity need = least_capacity(requests, chunk);
                       if (need.rows > capacity.rows) return std::nullopt;
                       return capacity;
                     })
      .find();
}

std::variant<ChunkedPlan, Infeasible> make_chunked_plan(const Request& request,
                                                        std::span<const InferenceRequest> requests,
                                                        const Policy& policy, std::int64_t steps) {
  // Whole prompts, and long chunks, may have fewer steps to do at once than are wanted.
  const auto plan_for = [&](std::int64_t chunk) {
    return make_serving_plan(request, requests, policy, chunk,
                             std::min(steps, most_in_flight(requests, chunk)));
  };
  std::variant<Plan, Infeasible> answer = plan_for(0);
  if (auto* const no = std::get_if<Infeasible>(&answer)) return std::move(*no);
  ChunkedPlan made{.plan = std::move(std::get<Plan>(answer)), .chunk = 0};
  const std::int64_t most = steps > 0 ? steps : useful_steps(request, policy);
  const std::int64_t best =
      ChunkSearch(made.plan, requests, policy, [&](std::int64_t rows) -> std::optional<Capacity> {
        return wanted_capacity(prompts_of(requests), policy, rows, most);
      }).find();
  if (best > 0) {
    std::variant<Plan, Infeasible> chunked = plan_for(best);
    if (auto* const plan = std::get_if<Plan>(&chunked)) {
      // Its shares may be others, and so the best length.
      made.plan = std::move(*plan);
      made.chunk = best_chunk(made.plan, requests, policy, 0);
    }
  }
  check_in_flight(requests, made.chunk, steps);
  return made;
}

}  // namespace tandem::planner
