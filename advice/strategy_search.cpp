#include "advice/strategy_search.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "advice/refined_settings.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/model_support.hpp"

namespace tandem::study {
namespace {

using model::DeviceIndex;
using planner::Policy;
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

}  // namespace

std::string StrategySearch::obstacle() const {
  const Strategy& strategy = *strategy_;
  if (question_.request.window.blocks.value_or(0) > 0 && !strategy.sharding.may_stream())
    return "streams no weights";
  if (std::string no = planner::model_obstacle(strategy, question_.request.model); !no.empty())
    return no;
  if (question_.served && strategy.sharding.splits_positions() && !question_.keeps_axes)
    return "is weighed for one request alone; name it to plan for several";
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
  // Of a strategy that is named, it is what was asked for.
  if (!question_.keeps_axes && moves_.slowest_first().size() == 1 && !strategy.sharding.is_local())
    return "there is one device alone";
  return {};
}

std::string StrategySearch::reason() {
  const std::string& reason = answers_(everyone()).reason;
  return reason.substr(0, reason.find('\n'));
}

std::string StrategySearch::remedy() {
  const std::string& reason = answers_(everyone()).reason;
  const std::size_t at = reason.find("\nremedy: ");
  if (at == std::string::npos) return {};
  return reason.substr(at + 1, reason.find('\n', at + 1) - at - 1);
}

double StrategySearch::seconds() { return best_ ? answers_.seconds(*best_) : planner::kNever; }

// The fastest and nearest 2, 4, 8, ... devices, then all.
std::vector<Setting> StrategySearch::doubled() const {
  const Setting all = everyone();
  std::vector<Setting> sets = moves_.best_few(all, moves_.nearest_last());
  std::erase_if(sets, [](const Setting& few) {
    return !std::has_single_bit(static_cast<std::size_t>(few.size()));
  });
  sets.push_back(all);
  return sets;
}

void StrategySearch::start() {
  constexpr std::ptrdiff_t kMany = 8;  // devices
  const std::vector<Setting> sets = doubled();
  const auto is_first = [&](const Setting& set) { return answers_.may_hold(set); };
  const auto first = sets.back().size() > kMany ? std::ranges::find_if(sets, is_first) : sets.end();
  const Setting& set = first == sets.end() ? sets.back() : *first;
  static_cast<void>(answers_.seconds(quickest(question_, set)));
}

void StrategySearch::begin() {
  for (const Setting& set : doubled()) {
    if (best_ && planner::search_ended()) break;
    if (answers_.seconds(set) < seconds()) best_ = set;
  }
  if (planner::search_ended()) best_ = answers_.fastest();
}

void StrategySearch::plan_best() {
  if (question_.formats.size() > 1 || policies().size() > 1) return;
  Setting full = *best_;
  full.thorough = true;
  if (answers_.seconds(full) < seconds()) best_ = full;
}

bool StrategySearch::is_hopeless(double least) {
  return best_ && question_.prunes && !strategy_->sharding.is_local() &&
         seconds() * kHopeless > least;
}

void StrategySearch::descend(double least) {
  if (is_hopeless(least)) return;
  Setting best = everyone();
  for (std::size_t format = 0; format < std::max<std::size_t>(1, question_.formats.size());
       ++format) {
    for (const Policy* const policy : policies()) {
      if (planner::search_ended()) break;
      Setting all = everyone();
      all.format = format;
      all.policy = policy;
      for (const Setting& end : {descended(all), descended(beginning(all))}) {
        if (answers_.seconds(end) < answers_.seconds(best) * kEqualTimes) best = end;
      }
    }
  }
  rough_ = best;
  consider(best);
}

double StrategySearch::limit() {
  return answered_ ? std::min(least_, answers_.seconds(*answered_)) : least_;
}

void StrategySearch::plan_in_full(Setting setting) {
  const auto answer = [&](const Setting& one) {
    if (!answers_(one).contender) return;
    if (!answered_ || answers_.seconds(one) < answers_.seconds(*answered_) * kEqualTimes)
      answered_ = one;
  };
  const std::optional<Contender>& rough = answers_(setting).contender;
  const bool streams = strategy_->sharding.splits_heads() && rough && rough->plan.streams();
  setting.thorough = true;
  if (question_.prunes) {
    if (answers_.with_enough_memory(setting) * kRarelyBelow > limit()) return;
    if (streams) {
      Setting any_sums = setting;
      any_sums.thorough = false;
      any_sums.any_sums = true;
      answer(any_sums);
      if (answers_.seconds(any_sums) * kSavedByShares > limit()) return;
    }
  }
  answer(setting);
}

void StrategySearch::plan_descended(double least) {
  if (!rough_) return;
  if (question_.prunes) least_ = least;
  plan_in_full(*rough_);
  consider(answered_);
  if (planner::search_ended() || !answered_) return;
  make_shares_for_tiles(least);
  if (strategy_->sharding.replicates() && seconds() * kSavedByParts <= least)
    consider(refined(question_, *best_, contender().plan.streams()));
}

void StrategySearch::line_up(double least) {
  if (!rough_) return;
  if (question_.prunes) least_ = least;
  for (Setting& one : promising(*rough_)) line_.push_back(std::move(one));
}

std::optional<double> StrategySearch::next_seconds() {
  if (line_.empty()) return std::nullopt;
  return answers_.seconds(line_.front());
}

void StrategySearch::plan_next() {
  const Setting next = std::move(line_.front());
  line_.pop_front();
  plan_in_full(next);
}

void StrategySearch::settle() {
  consider(answered_);
  if (planner::search_ended()) best_ = answers_.fastest();
}

void StrategySearch::consider(const std::optional<Setting>& setting) {
  if (!setting || !answers_(*setting).contender) return;
  const double now = answers_.seconds(*setting);
  const bool is_fuller = best_ && setting->thorough && !best_->thorough;
  if (!best_ || now < seconds() * kEqualTimes || (is_fuller && now * kEqualTimes <= seconds()))
    best_ = setting;
}

void StrategySearch::gather(double least) {
  const Setting rough = rough_.value_or(best_.value_or(everyone()));
  for (const Setting& setting : {best_.value_or(rough), everyone_as(rough)})
    consider(gathered(answers_, question_, setting, least));
}

void StrategySearch::make_shares_for_tiles(double least) {
  if (!best_) return;
  const std::int32_t tiles = contender().plan.tiles;
  if (seconds() * kSavedByTiles > least) return;
  for (const Setting& setting : {*best_, everyone_as(*best_)})
    consider(for_tiles(question_, setting, tiles));
}

void StrategySearch::refine(double least) {
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

Setting StrategySearch::everyone() const {
  const Strategy& strategy = *strategy_;
  Setting setting{
      .strategy = &strategy,
      .policy = policies().front(),
      .used = std::vector<bool>(moves_.slowest_first().size(), !strategy.sharding.is_local()),
      .master = moves_.first_master()};
  setting.used[static_cast<std::size_t>(setting.master)] = true;
  return setting;
}

// The same for the format and policy of `like`.
Setting StrategySearch::everyone_as(const Setting& like) const {
  Setting setting = everyone();
  setting.format = like.format;
  setting.policy = like.policy;
  return setting;
}

std::vector<const Policy*> StrategySearch::policies() const {
  const Strategy& strategy = *strategy_;
  if (!question_.served) return {nullptr};
  if (question_.served->policy != nullptr) return {question_.served->policy};
  std::vector<const Policy*> all;
  for (const Policy& policy : planner::policies()) {
    // The throughput needs stages. One request at a time gives no higher rate, but each may take
    // less time than together with others.
    const bool one_by_one = question_.request.objective != planner::Objective::throughput &&
                            question_.served->steps <= 1;
    if (!planner::serves(policy, question_.served->chunk)) continue;
    if ((policy.several() || one_by_one) && (!policy.alone() || strategy.sharding.splits_layers()))
      all.push_back(&policy);
  }
  std::ranges::reverse(all);  // ties: the one without waits
  return all;
}

// From `at`, one change after another for as long as that helps.
Setting StrategySearch::descended(Setting at) {
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
Setting StrategySearch::beginning(const Setting& all) {
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

// Returns all devices, `best`, and those of the other evaluated settings that are hardly slower:
// they may be faster with other sums or better shares. If weights stream, which takes long to
// plan, only the first two.
std::vector<Setting> StrategySearch::promising(const Setting& best) {
  std::vector<Setting> found{everyone_as(best), best};
  const std::optional<Contender>& known = answers_(best).contender;
  if (!known || known->plan.streams()) return found;
  std::vector<Setting> others;
  for (const Setting& one : answers_.asked()) {
    if (one.strategy != best.strategy || one.thorough || one.any_sums || one.tiles ||
        one.format != best.format || one.policy != best.policy)
      continue;
    if (answers_.seconds(one) * kHardlySlower <= known->seconds) others.push_back(one);
  }
  std::ranges::stable_sort(others, {}, [&](const Setting& one) { return answers_.seconds(one); });
  for (const Setting& one : others) {
    if (found.size() == 2 + kMostPromising) break;
    // Equal numbers of equally fast devices are one choice.
    const auto is_alike = [&](const Setting& other) {
      return one.size() == other.size() && is_equal(answers_.seconds(one), answers_.seconds(other));
    };
    if (std::ranges::none_of(found, is_alike)) found.push_back(one);
  }
  return found;
}

std::vector<LeftOut> StrategySearch::left_out() {
  const Setting best = *best_;
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
    all.push_back({.device = name(d),
                   .seconds = of.contender ? std::optional(of.contender->seconds) : std::nullopt});
  }
  return all;
}

const std::string& StrategySearch::name(DeviceIndex d) const {
  return question_.request.cluster.devices()[static_cast<std::size_t>(d)].name;
}

}  // namespace tandem::study
