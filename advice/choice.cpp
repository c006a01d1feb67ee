#include "advice/choice.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <deque>
#include <exception>
#include <functional>
#include <thread>

#include "advice/device_moves.hpp"
#include "advice/equal_devices.hpp"
#include "advice/least_time.hpp"
#include "advice/refined_settings.hpp"
#include "advice/settings.hpp"
#include "model/base/error.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/model_support.hpp"

namespace tandem::study {
namespace {

using model::DeviceIndex;
using planner::Plan;
using planner::Policy;
using planner::Request;
using planner::Strategy;

constexpr double kWorthIt = 1.0 - 1e-3;
constexpr double kEqualTimes = 1.0 - 1e-9;  // less is rounding
constexpr double kHardlySlower = 1.0 / 1.3;
// Upper limit of the time saved by shares made for tiles.
constexpr double kSavedByTiles = 1.0 - 0.1;
// And by better parts, as far as was seen.
constexpr double kSavedByParts = 1.0 - 0.4;
// And by joined stages, or by other sums where weights stream.
constexpr double kSavedAtLength = 1.0 - 0.1;
constexpr std::size_t kMostPromising = 5;
// Planning in full shortens a rough plan by less than this.
constexpr double kHopeless = 1.0 / 4.0;
// With more memory a plan is no slower, except by what the search for shares misses.
constexpr double kRarelyBelow = 1.0 - 0.05;
// Searched shares of streamed weights are less than twice as fast as those of Algorithm 1 (1.6 was
// seen).
constexpr double kSavedByShares = 1.0 / 2.0;
// For plans on equal devices.
bool is_equal(double seconds, double other) {
  return std::min(seconds, other) >= std::max(seconds, other) * kEqualTimes;
}

class Search {
 public:
  // Copies what it reads: routes of a cluster are found on demand, which threads cannot share.
  Search(const Question& question, const Strategy& strategy,
         const std::vector<DeviceIndex>& first_equal, SearchWatch& watch)
      : question_(question),
        strategy_(&strategy),
        moves_(question_, first_equal),
        answers_(question_, watch) {}

  // Why the strategy is not searched; empty: it is.
  [[nodiscard]] std::string obstacle() const { return obstacle(*strategy_); }
  // Why it has no plan, in one line.
  [[nodiscard]] std::string reason() {
    const std::string& reason = answers_(everyone(*strategy_)).reason;
    return reason.substr(0, reason.find('\n'));
  }
  [[nodiscard]] Answers& answers() { return answers_; }
  [[nodiscard]] const Strategy& strategy() const { return *strategy_; }
  // The best setting found; nothing without a plan.
  [[nodiscard]] const std::optional<Setting>& best() const { return best_; }
  [[nodiscard]] double seconds() { return best_ ? answers_.seconds(*best_) : planner::kNever; }
  [[nodiscard]] const Contender& contender() { return *answers_(*best_).contender; }

  // Plans for the fastest and nearest 2, 4, 8, ... devices and for all of them, with default sums
  // and rough shares: for the order of searches. Few devices take the least time to plan for, so a
  // search that ends early has tried them.
  void begin() {
    const Setting all = everyone(*strategy_);
    std::vector<Setting> sets = moves_.best_few(all, moves_.nearest_last());
    std::erase_if(sets, [](const Setting& few) {
      return !std::has_single_bit(static_cast<std::size_t>(few.size()));
    });
    sets.push_back(all);
    for (const Setting& set : sets) {
      if (best_ && planner::search_ended()) return;
      if (answers_.seconds(set) < seconds()) best_ = set;
    }
  }

  // Plans in full for the best of the sets of begin(). All devices in full search() needs anyway if
  // there is nothing else to choose.
  void plan_best() {
    if (question_.formats.size() > 1 || policies(*strategy_).size() > 1) return;
    Setting full = *best_;
    full.thorough = true;
    if (answers_.seconds(full) < seconds()) best_ = full;
  }

  // Searches devices, master, format and policy. `least` is the best time of all strategies so far:
  // a strategy that is far behind is not searched, and what cannot be below is not planned in full.
  void search(double least) {
    if (question_.prunes) least_ = least;
    if (best_ && question_.prunes && !strategy_->sharding.is_local() &&
        seconds() * kHopeless > least) {
      rough_ = *best_;
      return;
    }
    best_ = best_of(*strategy_);
    if (planner::search_ended()) best_ = answers_.fastest();
  }

  // Devices that share out the weights may be others, or have the only plan. `least` is the best
  // time of all strategies.
  void gather(double least) {
    for (const Setting& setting : {best_.value_or(rough_), everyone_as(rough_)})
      consider(gathered(answers_, question_, setting, least));
  }

  // Has heads and columns found for the tiles of the plan where that may change the best of all
  // strategies, whose time is `least`.
  void make_shares_for_tiles(double least) {
    if (!best_) return;
    const std::int32_t tiles = contender().plan.tiles;
    if (seconds() * kSavedByTiles > least) return;
    for (const Setting& setting : {*best_, everyone_as(*best_)})
      consider(for_tiles(question_, setting, tiles));
  }

  // Searches at length what a strategy leaves open, parts with each master, where that may change
  // the best of all strategies, whose time is `least`.
  void refine(double least) {
    const bool parts = strategy_->sharding.replicates();
    if (!best_ || seconds() * (parts ? kSavedByParts : kSavedAtLength) > least) return;
    const Setting found = *best_;
    const bool streams = contender().plan.streams();
    for (const DeviceIndex master : moves_.masters()) {
      if (!found.used[static_cast<std::size_t>(master)] || (master != found.master && !parts))
        continue;
      Setting setting = found;
      setting.master = master;
      consider(refined(question_, setting, streams));
    }
  }

  // Evaluates each unused device added to the best plan; one of several equal devices.
  std::vector<LeftOut> left_out() { return left_out(*best_); }

 private:
  // Makes `setting` the best if it is.
  void consider(const std::optional<Setting>& setting) {
    if (setting && answers_.seconds(*setting) < seconds() * kEqualTimes) best_ = setting;
  }

  [[nodiscard]] std::string obstacle(const Strategy& strategy) const {
    if (question_.request.window.blocks.value_or(0) > 0 && !strategy.sharding.may_stream())
      return "streams no weights";
    if (std::string no = planner::model_obstacle(strategy, question_.request.model); !no.empty())
      return no;
    if (question_.served && strategy.sharding.splits_positions()) return "serves one request";
    const std::int64_t steps = question_.served ? question_.served->steps : question_.prompt.steps;
    if (steps > 1 && !strategy.sharding.splits_layers()) return "works on one step at a time";
    if (strategy.sharding.splits_positions()) {
      for (const model::DeviceProfile& profile : question_.request.profiles) {
        if (profile.rate_of(model::TaskKind::merge, model::WeightFormat::f32) == nullptr)
          return "profile '" + profile.source +
                 "' has no rate for 'merge', which it needs; measure the profile again";
      }
    }
    if (question_.request.head == planner::HeadPlacement::split &&
        !strategy.sharding.may_split_head())
      return "keeps the LM head at the master";
    if (moves_.slowest_first().size() == 1 && !strategy.sharding.is_local())
      return "there is one device alone";
    return {};
  }

  [[nodiscard]] const std::string& name(DeviceIndex d) const {
    return question_.request.cluster.devices()[static_cast<std::size_t>(d)].name;
  }

  [[nodiscard]] Setting everyone(const Strategy& strategy) const {
    Setting setting{
        .strategy = &strategy,
        .policy = policies(strategy).front(),
        .used = std::vector<bool>(moves_.slowest_first().size(), !strategy.sharding.is_local()),
        .master = moves_.first_master()};
    setting.used[static_cast<std::size_t>(setting.master)] = true;
    return setting;
  }

  // The same for the strategy, format and policy of `like`.
  [[nodiscard]] Setting everyone_as(const Setting& like) const {
    Setting setting = everyone(*like.strategy);
    setting.format = like.format;
    setting.policy = like.policy;
    return setting;
  }

  [[nodiscard]] std::vector<const Policy*> policies(const Strategy& strategy) const {
    if (!question_.served) return {nullptr};
    if (question_.served->policy != nullptr) return {question_.served->policy};
    std::vector<const Policy*> all;
    for (const Policy& policy : planner::policies()) {
      // The throughput needs stages. One request at a time gives no higher rate, but each may take
      // less time than together with others.
      const bool one_by_one = question_.request.objective != planner::Objective::throughput &&
                              question_.served->steps <= 1;
      if (!planner::serves(policy, question_.served->chunk)) continue;
      if ((policy.several() || one_by_one) &&
          (!policy.alone() || strategy.sharding.splits_layers()))
        all.push_back(&policy);
    }
    std::ranges::reverse(all);  // ties: the one without waits
    return all;
  }

  // From `at`, one change after another for as long as that helps.
  Setting descend(Setting at) {
    for (bool moved = true; moved;) {
      moved = false;
      for (const Setting& next : moves_.neighbours(at)) {
        if (planner::search_ended()) return at;
        if (answers_.seconds(next) >= answers_.seconds(at) * kWorthIt) continue;
        at = next;
        moved = true;
        break;
      }
    }
    return at;
  }

  // Returns the starting point: all devices, or fewer if they are faster. If none of these has a
  // plan, tries another master, and then starts from the devices with most memory.
  [[nodiscard]] Setting beginning(const Setting& all) {
    Setting start = all;
    const auto try_few = [&](const Setting& like, const std::vector<DeviceIndex>& best_last) {
      for (const Setting& few : moves_.best_few(like, best_last)) {
        if (planner::search_ended()) return;
        if (answers_.seconds(few) < answers_.seconds(start) * kWorthIt) start = few;
      }
    };
    try_few(all, moves_.slowest_first());
    if (moves_.nearest_last() != moves_.slowest_first()) try_few(all, moves_.nearest_last());
    if (all.strategy->sharding.is_local()) return start;
    for (const std::vector<DeviceIndex>& order :
         {moves_.slowest_first(), moves_.least_memory_first()}) {
      for (const DeviceIndex master : moves_.masters()) {
        if (planner::search_ended() || std::isfinite(answers_.seconds(start))) return start;
        Setting like = all;
        like.master = master;
        try_few(like, order);
      }
    }
    return start;
  }

  std::optional<Setting> best_of(const Strategy& strategy) {
    Setting best = everyone(strategy);
    for (std::size_t format = 0; format < std::max<std::size_t>(1, question_.formats.size());
         ++format) {
      for (const Policy* const policy : policies(strategy)) {
        if (planner::search_ended()) break;
        Setting all = everyone(strategy);
        all.format = format;
        all.policy = policy;
        for (const Setting& end : {descend(all), descend(beginning(all))}) {
          if (answers_.seconds(end) < answers_.seconds(best) * kEqualTimes) best = end;
        }
      }
    }
    rough_ = best;
    std::optional<Setting> answered;
    const auto limit = [&] {
      return answered ? std::min(least_, answers_.seconds(*answered)) : least_;
    };
    const auto consider = [&](const Setting& setting) {
      if (!answers_(setting).contender) return;
      if (!answered || answers_.seconds(setting) < answers_.seconds(*answered) * kEqualTimes)
        answered = setting;
    };
    for (Setting setting : promising(best)) {
      const std::optional<Contender>& rough = answers_(setting).contender;
      const bool streams = strategy_->sharding.splits_heads() && rough && rough->plan.streams();
      setting.thorough = true;
      if (!question_.prunes) {
        consider(setting);
        continue;
      }
      if (answers_.with_enough_memory(setting) * kRarelyBelow > limit()) continue;
      if (streams) {
        Setting any_sums = setting;
        any_sums.thorough = false;
        any_sums.any_sums = true;
        consider(any_sums);
        if (answers_.seconds(any_sums) * kSavedByShares > limit()) continue;
      }
      consider(setting);
    }
    if (!answered && answers_(best).contender) return best;
    return answered;
  }

  // Returns all devices, `best`, and those of the other evaluated settings that are hardly slower:
  // they may be faster with other sums or better shares. If weights stream, which takes long to
  // plan, only the first two.
  [[nodiscard]] std::vector<Setting> promising(const Setting& best) {
    std::vector<Setting> found{everyone_as(best), best};
    const std::optional<Contender>& known = answers_(best).contender;
    if (!known || known->plan.streams()) return found;
    std::vector<Setting> others;
    for (const Setting& one : answers_.asked()) {
      if (one.strategy != best.strategy || one.thorough || one.any_sums ||
          one.format != best.format || one.policy != best.policy)
        continue;
      if (answers_.seconds(one) * kHardlySlower <= known->seconds) others.push_back(one);
    }
    std::ranges::stable_sort(others, {}, [&](const Setting& one) { return answers_.seconds(one); });
    for (const Setting& one : others) {
      if (found.size() == 2 + kMostPromising) break;
      // Equal numbers of equally fast devices are one choice.
      const auto is_alike = [&](const Setting& other) {
        return one.size() == other.size() &&
               is_equal(answers_.seconds(one), answers_.seconds(other));
      };
      if (std::ranges::none_of(found, is_alike)) found.push_back(one);
    }
    return found;
  }

  std::vector<LeftOut> left_out(const Setting& best) {
    std::vector<LeftOut> all;
    std::vector<double> quick;
    for (const DeviceIndex d : moves_.slowest_first()) {
      if (best.used[static_cast<std::size_t>(d)] || best.strategy->sharding.is_local()) continue;
      Setting with = best;
      with.used[static_cast<std::size_t>(d)] = true;
      Setting rough = with;
      rough.thorough = false;
      quick.push_back(answers_.seconds(rough));
      const auto known =
          std::ranges::find_if(quick, [&](double other) { return is_equal(other, quick.back()); });
      const std::size_t like = static_cast<std::size_t>(known - quick.begin());
      if (like < all.size() && std::isfinite(quick.back())) {
        all.push_back({.device = name(d), .seconds = all[like].seconds});
        continue;
      }
      const Answer& of = answers_(with);
      all.push_back(
          {.device = name(d),
           .seconds = of.contender ? std::optional(of.contender->seconds) : std::nullopt});
    }
    return all;
  }

  Question question_;
  const Strategy* strategy_;
  DeviceMoves moves_;
  Answers answers_;
  Setting rough_;                   // the best of the local search
  double least_ = planner::kNever;  // of all strategies, when the local search began
  std::optional<Setting> best_;     // of all that was planned
};

// Calls `work` for each of `searches`, in order, on up to `threads` threads. Rethrows the error of
// the first one that has one.
void for_each(const std::vector<Search*>& searches, planner::SearchEffort& effort,
              std::size_t threads, const std::function<void(Search&)>& work) {
  std::vector<std::exception_ptr> errors(searches.size());
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    const planner::EffortScope scope(effort);
    for (std::size_t i = next++; i < searches.size(); i = next++) {
      try {
        work(*searches[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(threads, searches.size()); ++i) others.emplace_back(run);
    run();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// Returns how many strategies are searched at once. Variation is replayed in a child process, which
// only one thread may start.
std::size_t threads_for(const Question& question, const planner::SearchEffort& effort) {
  const bool alone =
      effort.is_limited_by_evaluations() || !model::variation(question.request.cluster).empty();
  return alone ? 1 : std::max(1U, std::thread::hardware_concurrency());
}

void sort_by_time(std::vector<Search*>& searches) {
  std::ranges::stable_sort(searches, {}, [](Search* one) { return one->seconds(); });
}

// Ranks the searches' best plans: the fastest first, unless another is as fast to 0.1% and needs
// fewer devices.
std::vector<Search*> ranked(std::vector<Search*> order) {
  sort_by_time(order);
  auto fewest = order.begin();
  for (auto at = order.begin(); at != order.end(); ++at) {
    if ((*at)->seconds() * kWorthIt <= order.front()->seconds() &&
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
  std::deque<Search> searches;  // by strategy
  std::vector<Search*> possible;
  const std::vector<DeviceIndex> first_equal =
      first_equals(question.request.cluster, profiles_of(question.request));
  for (const Strategy& strategy : planner::strategies()) {
    if (question.keeps_axes && strategy.name != question.request.strategy) continue;
    Search& search = searches.emplace_back(question, strategy, first_equal, watch);
    if (search.obstacle().empty()) possible.push_back(&search);
  }
  const std::size_t threads = threads_for(question, effort);
  const auto least = [&] {
    double seconds = planner::kNever;
    for (Search* const one : possible) seconds = std::min(seconds, one->seconds());
    return seconds;
  };
  for_each(possible, effort, threads, [](Search& one) { one.begin(); });
  sort_by_time(possible);
  std::vector<Search*> close;
  for (Search* const one : possible) {
    if (one->best() && one->seconds() * kHardlySlower <= least()) close.push_back(one);
  }
  for_each(close, effort, threads, [](Search& one) { one.plan_best(); });
  sort_by_time(possible);
  for_each(possible, effort, threads, [all = least()](Search& one) { one.search(all); });
  for_each(possible, effort, threads, [all = least()](Search& one) { one.gather(all); });
  for_each(possible, effort, threads,
           [all = least()](Search& one) { one.make_shares_for_tiles(all); });
  for_each(possible, effort, threads, [all = least()](Search& one) { one.refine(all); });

  Choice choice{.objective = question.request.objective};
  std::vector<Search*> found;
  std::optional<Error> refused;
  const planner::EffortScope scope(effort);
  for (Search& search : searches) {
    const std::string no = search.obstacle();
    if (no.empty() && search.best()) {
      found.push_back(&search);
    } else {
      choice.without.emplace_back(search.strategy().name, no.empty() ? search.reason() : no);
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
  for (Search* const one : found) {
    Contender& contender = choice.contenders.emplace_back(one->contender());
    if (choice.to_the_end) contender.seconds = one->answers().simulated(contender);
  }
  choice.evaluations = effort.evaluations();
  choice.elapsed_s = effort.seconds();
  return choice;
}

}  // namespace tandem::study
