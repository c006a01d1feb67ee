#include "advice/choice.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "advice/least_time.hpp"
#include "advice/settings.hpp"
#include "advice/strategy_search.hpp"
#include "model/base/error.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/equal_devices.hpp"
#include "planner/serving/service_objective.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/replay/replay.hpp"

namespace tandem::study {
namespace {

using model::DeviceIndex;
using planner::Strategy;

constexpr double kAsFast = 1.0 - 1e-3;
constexpr double kClose = 1.0 / 1.3;
// Others wait until the first have been searched.
constexpr double kFarBehind = 1.0 / 1.5;

// Calls `run` on up to `threads` threads at once, `count` at most.
void side_by_side(std::size_t count, planner::SearchEffort& effort, std::size_t threads,
                  const std::function<void()>& run) {
  const auto scoped = [&] {
    const planner::EffortScope scope(effort);
    run();
  };
  std::vector<std::jthread> others;
  others.reserve(threads);
  for (std::size_t i = 1; i < std::min(threads, count); ++i) others.emplace_back(scoped);
  scoped();
}

void rethrow_first(const std::vector<std::exception_ptr>& errors) {
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// Calls `work` for each of `searches`, in order, on up to `threads` threads. Rethrows the error of
// the first one that has one.
void for_each(const std::vector<StrategySearch*>& searches, planner::SearchEffort& effort,
              std::size_t threads, const std::function<void(StrategySearch&)>& work) {
  std::vector<std::exception_ptr> errors(searches.size());
  std::atomic<std::size_t> next = 0;
  side_by_side(searches.size(), effort, threads, [&] {
    for (std::size_t i = next++; i < searches.size(); i = next++) {
      try {
        work(*searches[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  });
  rethrow_first(errors);
}

// Plans in full what the searches have lined up, on up to `threads` threads, the most promising
// first. A search is with one thread at a time and keeps its own order, so that the plans do not
// depend on timing.
void plan_lines(const std::vector<StrategySearch*>& searches, planner::SearchEffort& effort,
                std::size_t threads) {
  std::vector<std::exception_ptr> errors(searches.size());
  std::vector<bool> is_taken(searches.size());
  std::mutex mutex;
  const auto take = [&] {
    const std::scoped_lock lock(mutex);
    std::size_t best = searches.size();
    double least = 0.0;
    for (std::size_t i = 0; i < searches.size(); ++i) {
      if (is_taken[i] || errors[i]) continue;
      const std::optional<double> seconds = searches[i]->next_seconds();
      if (!seconds || (best < searches.size() && *seconds >= least)) continue;
      best = i;
      least = *seconds;
    }
    if (best < searches.size()) is_taken[best] = true;
    return best;
  };
  side_by_side(searches.size(), effort, threads, [&] {
    for (std::size_t i = take(); i < searches.size(); i = take()) {
      std::exception_ptr error;
      try {
        searches[i]->plan_next();
      } catch (...) {
        error = std::current_exception();
      }
      const std::scoped_lock lock(mutex);
      errors[i] = error;
      is_taken[i] = false;
    }
  });
  rethrow_first(errors);
}

// Returns how many strategies are searched at once. Variation is replayed in a child process, which
// only one thread may start.
std::size_t threads_for(const Question& question, const planner::SearchEffort& effort) {
  const bool alone =
      effort.is_limited_by_evaluations() || !model::variation(question.request.cluster).empty();
  return alone ? 1 : std::max(1U, std::thread::hardware_concurrency());
}

double least_of(const std::vector<StrategySearch*>& searches) {
  double seconds = planner::kNever;
  for (StrategySearch* const one : searches) seconds = std::min(seconds, one->seconds());
  return seconds;
}

// Returns those with a plan whose time, multiplied by `factor`, is at most the least.
std::vector<StrategySearch*> within(const std::vector<StrategySearch*>& searches, double factor) {
  const double least = least_of(searches);
  std::vector<StrategySearch*> close;
  for (StrategySearch* const one : searches) {
    if (one->best() && one->seconds() * factor <= least) close.push_back(one);
  }
  return close;
}

void sort_by_time(std::vector<StrategySearch*>& searches) {
  std::ranges::stable_sort(searches, {}, [](StrategySearch* one) { return one->seconds(); });
}

// Ranks the searches' best plans: the fastest first, unless another is as fast to 0.1% and needs
// fewer devices.
std::vector<StrategySearch*> ranked(std::vector<StrategySearch*> order) {
  sort_by_time(order);
  auto fewest = order.begin();
  for (auto at = order.begin(); at != order.end(); ++at) {
    if ((*at)->seconds() * kAsFast <= order.front()->seconds() &&
        (*at)->best()->size() < (*fewest)->best()->size())
      fewest = at;
  }
  std::rotate(order.begin(), fewest, fewest + 1);
  return order;
}

}  // namespace

Choice choose(const Question& question) {
  planner::SearchEffort unlimited;
  planner::SearchEffort& effort = question.effort != nullptr ? *question.effort : unlimited;
  SearchWatch watch(effort, question.progress);
  std::deque<StrategySearch> searches;  // by strategy
  std::vector<StrategySearch*> possible;
  const std::vector<DeviceIndex> first_equal =
      planner::first_equals(question.request.cluster, profiles_of(question.request));
  for (const Strategy& strategy : planner::strategies()) {
    if (question.keeps_axes && strategy.name != question.request.strategy) continue;
    StrategySearch& search = searches.emplace_back(question, strategy, first_equal, watch);
    if (search.obstacle().empty()) possible.push_back(&search);
  }
  const std::size_t threads = threads_for(question, effort);
  const auto least = [&] { return least_of(possible); };
  for_each(possible, effort, threads, [](StrategySearch& one) { one.start(); });
  for_each(possible, effort, threads, [](StrategySearch& one) { one.begin(); });
  sort_by_time(possible);
  for_each(within(possible, kClose), effort, threads, [](StrategySearch& one) { one.plan_best(); });
  // The first have been searched roughly, planned in full and refined before the others begin.
  sort_by_time(possible);
  const std::vector<StrategySearch*> first = within(possible, kFarBehind);
  for_each(first, effort, threads, [all = least()](StrategySearch& one) { one.descend(all); });
  std::vector<StrategySearch*> order = first;
  sort_by_time(order);
  for_each(order, effort, threads,
           [all = least()](StrategySearch& one) { one.plan_descended(all); });
  std::vector<StrategySearch*> others;
  for (StrategySearch* const one : possible) {
    if (std::ranges::find(first, one) == first.end()) others.push_back(one);
  }
  for_each(others, effort, threads, [all = least()](StrategySearch& one) { one.descend(all); });
  for_each(possible, effort, threads, [all = least()](StrategySearch& one) { one.line_up(all); });
  plan_lines(possible, effort, threads);
  for_each(possible, effort, threads, [](StrategySearch& one) { one.settle(); });
  for_each(possible, effort, threads, [all = least()](StrategySearch& one) { one.gather(all); });
  for_each(possible, effort, threads,
           [all = least()](StrategySearch& one) { one.make_shares_for_tiles(all); });
  for_each(possible, effort, threads, [all = least()](StrategySearch& one) { one.refine(all); });
  for_each(possible, effort, threads, [](StrategySearch& one) { one.settle(); });

  Choice choice{.objective = question.request.objective};
  std::vector<StrategySearch*> found;
  std::optional<Error> refused;
  const planner::EffortScope scope(effort);
  for (StrategySearch& search : searches) {
    const std::string no = search.obstacle();
    if (no.empty() && search.best()) {
      found.push_back(&search);
    } else {
      choice.without.emplace_back(search.strategy().name, no.empty() ? search.reason() : no);
      const std::string remedy = no.empty() ? search.remedy() : std::string();
      if (!remedy.empty() && std::ranges::find(choice.remedies, remedy) == choice.remedies.end())
        choice.remedies.push_back(remedy);
    }
    if (!refused) refused = search.answers().refused();
  }
  if (found.empty()) {
    if (refused) throw Error(*refused);
  } else {
    found = ranked(std::move(found));
    choice.settings = std::ssize(found.front()->answers().asked());
    if (!effort.ended()) choice.left_out = found.front()->left_out();
    // Devices not evaluated before the end have no time, which would read as no plan.
    if (effort.ended()) choice.left_out.clear();
  }
  choice.to_the_end = !effort.ended();
  choice.interrupted = effort.interrupted();
  if (!found.empty()) choice.least_s = least_seconds(question);
  for (StrategySearch* const one : found) choice.contenders.push_back(one->contender());
  choice.evaluations = effort.evaluations();
  choice.elapsed_s = effort.seconds();
  if (question.replays) replay_contenders(question, choice);
  return choice;
}

void replay_contenders(const Question& question, Choice& choice) {
  if (!choice.to_the_end) return;
  const planner::SearchEffort clock;
  for (Contender& contender : choice.contenders) {
    if (question.served) {
      ServedWorkload served = *question.served;
      served.policy = contender.policy;
      served.chunk = contender.chunk;
      contender.seconds = planner::service_time(
          predict_served(contender.plan, served, {.intervals = false}).result, choice.objective);
    } else if (contender.chunk == 0) {
      contender.seconds =
          planner::predicted_time(contender.plan, choice.objective, sim::replay_extrapolated);
    }
  }
  choice.elapsed_s += clock.seconds();
}

}  // namespace tandem::study
