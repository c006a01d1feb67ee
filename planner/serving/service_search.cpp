#include "planner/serving/service_search.hpp"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/predict/analytic.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/serving/chunk_search.hpp"
#include "planner/serving/prefix_sharing.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/service_objective.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/serving/steps_in_flight.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"

namespace tandem::planner {
namespace {

constexpr std::size_t kConsidered = 16;  // requests
constexpr double kSavesSome = 1.0 - 1e-4;
// Refining saves at most this much more of one plan's time than of another's, as far as was seen.
constexpr double kSavedByRefining = 1.0 / 1.15;
constexpr int kRoundsOfReading = 4;  // of chunk and steps, each for the other; two as a rule

std::int64_t longest(std::span<const InferenceRequest> requests) {
  std::int64_t rows = 1;
  for (const InferenceRequest& request : requests) rows = std::max(rows, request.prompt_tokens);
  return rows;
}

// Returns `steps` that are given or found, as far as there is work for them.
std::int64_t at_most(std::int64_t steps, const Service& service, std::int64_t chunk) {
  return std::min(steps, most_in_flight(service.requests, chunk));
}

// The chunk and the steps in flight of one plan's shares.
class ReadingSearch {
 public:
  ReadingSearch(const Request& request, const Service& service, ServicePlan made, bool roughly)
      : request_(&request),
        service_(&service),
        roughly_(roughly),
        made_(std::move(made)),
        times_(&service.times->of(made_.plan)),
        chunks_(!service.chunk && !made_.plan.streams() &&
                made_.plan.model.architecture().generates() && reads_chunks(made_.plan)),
        flies_(service.steps == 0 && !made_.plan.streams() && !has_rounds(made_.plan) &&
               may_fly(request, service.policy)) {}

  ServicePlan find() {
    if (!chunks_ && !flies_) return std::move(made_);
    chunk_ = made_.chunk;
    steps_ = std::max<std::int64_t>(1, made_.plan.reserved().steps);
    search();
    std::optional<Plan> plan = reserving(chunk_, steps_);
    if (plan && chunk_ == made_.chunk && plan->capacity == made_.plan.capacity)
      return std::move(made_);
    const double as_made =
        enough(made_.chunk) ? service_->seconds(made_.plan, made_.chunk) : kNever;
    if (!plan || as_made < seconds(chunk_, steps_) * kSavesSome) return std::move(made_);
    return {.plan = *std::move(plan), .chunk = chunk_};
  }

 private:
  // Chunk and steps are sought each for the other, from few steps and from many.
  void search() {
    const bool is_one = service_->requests.size() == 1;
    const std::int64_t usual = service_->steps > 0 ? service_->steps : usual_steps();
    search_from(flies_ && is_one ? kMostSteps : usual);
    if (roughly_ || !flies_ || !chunks_) return;
    const std::pair found(chunk_, steps_);
    search_from(is_one ? usual : kMostSteps);
    if (seconds(found.first, found.second) <= seconds(chunk_, steps_))
      std::tie(chunk_, steps_) = found;
    while (!is_one && take_neighbour()) continue;
  }

  void search_from(std::int64_t steps) {
    if (chunks_) find_chunk(steps);
    const int rounds = roughly_ ? 1 : kRoundsOfReading;
    for (int again = 0; flies_ && again < rounds && !search_ended(); ++again) {
      const std::pair before(chunk_, steps_);
      steps_ = steps_for(chunk_);
      if (chunks_ && !roughly_) find_chunk(steps_);
      if (before == std::pair(chunk_, steps_)) break;
    }
  }

  // One a stage, each of which may have several devices, or as many as sequences.
  [[nodiscard]] std::int64_t usual_steps() const {
    const std::int64_t most = useful_steps(*request_, service_->policy);
    if (service_->policy.alone() || !has_groups(made_.plan)) return most;
    return std::min(most, static_cast<std::int64_t>(stages(made_.plan).size()));
  }

  [[nodiscard]] std::int64_t steps_for(std::int64_t chunk) {
    return best_steps(at_most(usual_steps(), *service_, chunk),
                      at_most(kMostSteps, *service_, chunk), roughly_,
                      [&](std::int64_t steps) { return seconds(chunk, steps); });
  }

  // Whether a step may have the prompts of several requests.
  [[nodiscard]] bool may_join() const {
    return service_->policy.several() && !service_->policy.alone();
  }

  // Takes one chunk more or fewer of the longest prompt, with as many steps, one fewer or one more,
  // if that saves time: chunk and steps may each be the best for the other, and a neighbour of both
  // better.
  bool take_neighbour() {
    if (search_ended() || chunk_ == 0) return false;
    const std::int64_t rows = longest(service_->requests);
    const std::int64_t count = (rows + chunk_ - 1) / chunk_;
    const double least = seconds(chunk_, steps_) * kSavesSome;
    for (const std::int64_t other : {count - 1, count + 1}) {
      if (other < 2 || other > rows) continue;
      const std::int64_t chunk = (rows + other - 1) / other;
      for (const std::int64_t steps : {steps_, steps_ - 1, steps_ + 1}) {
        if (steps < 1 || steps > at_most(kMostSteps, *service_, chunk)) continue;
        if (seconds(chunk, steps) >= least) continue;
        chunk_ = chunk;
        steps_ = steps;
        return true;
      }
    }
    return false;
  }

  void find_chunk(std::int64_t steps) {
    chunk_ = best_chunk(
        longest(service_->requests), service_->requests.size() > 1, roughly_,
        [&](std::int64_t chunk) { return seconds(chunk, at_most(steps, *service_, chunk)); });
    const auto consider = [&](std::int64_t chunk) {
      if (search_ended() || seconds(chunk, at_most(steps, *service_, chunk)) >=
                                seconds(chunk_, at_most(steps, *service_, chunk_)) * kBetter)
        return;
      chunk_ = chunk;
    };
    // All chunks of the longest prompt at once, which the search above may pass over.
    const std::int64_t rows = longest(service_->requests);
    if (service_->steps > 1) consider((rows + steps - 1) / steps);
    // Longer ones than a prompt: then a step has several.
    std::int64_t all = 0;
    for (const InferenceRequest& request : service_->requests) all += request.prompt_tokens;
    for (std::int64_t chunk = rows; chunk < 2 * all && all > rows && may_join(); chunk *= 2)
      consider(std::min(chunk, all));
    steps_ = at_most(steps, *service_, chunk_);
  }

  // Whether there is work at once for the steps that are given.
  [[nodiscard]] bool enough(std::int64_t chunk) const {
    return service_->steps <= most_in_flight(service_->requests, chunk);
  }

  // Nothing if it does not fit.
  [[nodiscard]] std::optional<Plan> reserving(std::int64_t chunk, std::int64_t steps) const {
    const std::span<const InferenceRequest> requests = service_->requests;
    const Capacity least = steps > 1 ? least_capacity(requests, service_->policy, chunk, steps)
                                     : least_capacity(requests, chunk);
    Plan plan = made_.plan;
    for (const Capacity& capacity : capacities(requests, service_->policy, chunk, steps, least)) {
      plan.capacity = capacity;
      plan = with_predicted_memory(std::move(plan));
      if (fits(plan)) return plan;
    }
    return std::nullopt;
  }

  double seconds(std::int64_t chunk, std::int64_t steps) {
    const std::pair point(chunk, steps);
    if (const auto known = times_->find(point); known != times_->end()) return known->second;
    std::optional<Plan> plan;
    if (enough(chunk)) plan = reserving(chunk, steps);
    return (*times_)[point] = plan ? service_->seconds(*plan, chunk) : kNever;
  }

  const Request* request_;
  const Service* service_;
  bool roughly_;
  ServicePlan made_;
  ReadingTimes::Times* times_;
  bool chunks_;  // are searched
  bool flies_;   // steps are searched
  std::int64_t chunk_ = 0;
  std::int64_t steps_ = 1;
};

}  // namespace

ReadingTimes::Times& ReadingTimes::of(Plan plan) {
  plan.partition.clear();
  plan.capacity = {};
  for (DevicePlan& device : plan.devices) device.memory = {};
  const auto known = std::ranges::find(known_, plan, &std::pair<Plan, Times>::first);
  if (known != known_.end()) return known->second;
  return known_.emplace_back(std::move(plan), Times{}).second;
}

bool ReadingTimes::may_win(double roughly_read) {
  roughly_read_ = std::min(roughly_read_, roughly_read);
  return roughly_read * kSavedByRefining <= roughly_read_;
}

ServiceClock analytic_clock(std::span<const InferenceRequest> requests, const Policy& policy,
                            Objective objective) {
  const auto all =
      std::make_shared<const std::vector<InferenceRequest>>(requests.begin(), requests.end());
  return [all, &policy, objective](const Plan& plan, std::int64_t chunk) {
    count_evaluation();
    RequestScheduler scheduler(
        *all, policy,
        {.chunk = chunk,
         .capacity = plan.reserved(),
         .shares_prefixes = states_prefixes(*all) && prefix_refusal(plan, *all).empty(),
         .places = CachePlaces(plan)});
    GraphCache graphs(plan);
    model::RunRecorder recorder(plan.cluster, plan.master, false);
    model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
    model::Result result;
    fill_requests(*all, recorder.served(), result);
    return service_time(result, objective);
  };
}

std::int64_t reserved_chunk(const Plan& plan, std::span<const InferenceRequest> requests,
                            const Policy& policy, std::int64_t steps) {
  if (plan.streams() || !plan.model.architecture().generates()) return 0;
  std::vector<InferenceRequest> first(
      requests.begin(),
      requests.begin() + static_cast<std::ptrdiff_t>(std::min(requests.size(), kConsidered)));
  for (InferenceRequest& request : first)
    request.new_tokens = std::min<std::int64_t>(1, request.new_tokens);
  Plan within = plan;
  within.capacity = serving_capacity(plan, steps);
  const ServiceClock seconds = analytic_clock(first, policy, Objective::ttft);
  return best_chunk(longest(first), first.size() > 1, false, [&](std::int64_t chunk) {
    return least_capacity(requests, chunk).rows > within.capacity.rows ? kNever
                                                                       : seconds(within, chunk);
  });
}

std::variant<ServicePlan, Infeasible> make_fitting_plan(const Request& request,
                                                        const Service& service) {
  const auto plan_for = [&](const Request& one, std::int64_t chunk, std::int64_t steps) {
    return make_serving_plan(one, service.requests, service.policy, chunk, steps);
  };
  if (service.chunk) {
    std::variant<Plan, Infeasible> given = plan_for(request, *service.chunk, service.steps);
    if (auto* const no = std::get_if<Infeasible>(&given)) return std::move(*no);
    return ServicePlan{.plan = std::get<Plan>(std::move(given)), .chunk = *service.chunk};
  }
  // Whole prompts, and long chunks, may have fewer steps to do at once than are wanted.
  std::variant<Plan, Infeasible> whole = plan_for(request, 0, at_most(service.steps, service, 0));
  const auto* const plan = std::get_if<Plan>(&whole);
  const bool may_stay = request.window.blocks.value_or(0) == 0;
  if ((plan == nullptr || plan->streams()) && may_stay &&
      request.model.architecture().generates()) {
    Request resident = request;
    resident.window = {.blocks = 0, .retain = {}};
    std::optional<Plan> fitting;
    const std::int64_t rows =
        longest_fitting_step(longest(service.requests), [&](std::int64_t chunk) {
          try {
            std::variant<Plan, Infeasible> made =
                plan_for(resident, chunk, at_most(service.steps, service, chunk));
            auto* const found = std::get_if<Plan>(&made);
            if (found != nullptr) fitting = std::move(*found);
            return found != nullptr;
          } catch (const Error&) {  // the strategy reads prompts whole
            return false;
          }
        });
    if (rows > 0) return ServicePlan{.plan = std::move(*fitting), .chunk = rows};
  }
  if (auto* const no = std::get_if<Infeasible>(&whole)) return std::move(*no);
  return ServicePlan{.plan = std::get<Plan>(std::move(whole)), .chunk = 0};
}

ServicePlan read_again(const Request& request, ServicePlan made, const Service& service,
                       bool roughly) {
  return ReadingSearch(request, service, std::move(made), roughly).find();
}

std::variant<ServicePlan, Infeasible> make_service_plan(const Request& request,
                                                        const Service& service, bool roughly) {
  auto fitting = make_fitting_plan(request, service);
  if (auto* const no = std::get_if<Infeasible>(&fitting)) return std::move(*no);
  const auto point = [](const ServicePlan& made) {
    return std::pair(made.chunk, made.plan.reserved().steps);
  };
  const auto first = point(std::get<ServicePlan>(fitting));
  ServicePlan best =
      read_again(request, std::get<ServicePlan>(std::move(fitting)), service, roughly);
  // Other shares may leave memory for more steps, or be better for those that were found.
  const auto consider = [&](std::int64_t steps) {
    if (search_ended() || best.plan.streams()) return true;
    std::variant<Plan, Infeasible> made = make_serving_plan(
        request, service.requests, service.policy, best.chunk, at_most(steps, service, best.chunk));
    auto* const plan = std::get_if<Plan>(&made);
    if (plan == nullptr) return false;
    if (*plan == best.plan) return true;
    ServicePlan other =
        read_again(request, {.plan = std::move(*plan), .chunk = best.chunk}, service, roughly);
    if (service.seconds(other.plan, other.chunk) < service.seconds(best.plan, best.chunk) * kBetter)
      best = std::move(other);
    return true;
  };
  if (service.steps == 0 && may_fly(request, service.policy)) {
    // As many as fit.
    for (std::int64_t steps = kMostSteps; steps > 1 && !consider(steps);) steps /= 2;
  }
  if (point(best) != first) static_cast<void>(consider(best.plan.reserved().steps));
  check_in_flight(service.requests, best.chunk, service.steps);
  return best;
}

}  // namespace tandem::planner
