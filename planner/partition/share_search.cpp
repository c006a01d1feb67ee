#include "planner/partition/share_search.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "planner/partition/exact/earliest.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/galaxy_partition.hpp"
#include "planner/partition/proportions.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/partition/split_clock.hpp"

namespace tandem::planner {
namespace {

// Predictions do not know what rows cost that begin within a cache line (0004). Single columns must
// gain more than this, which is a choice: the cost was measured of the product, not of requests.
constexpr double kSingleColumns = 0.98;
constexpr int kRounds = 8;           // of rebalancing; each begins with the last one's slacks
constexpr std::size_t kSources = 3;  // devices that moves begin at, the latest first
constexpr std::size_t kSinks = 4;    // and end at, the earliest first
constexpr int kMoves = 200;          // that are taken; a bound on time, not met in practice
// Tasks of all steps that are evaluated for times of whole plans, and the splits that these are for
// in any case, and at most.
constexpr double kStreamedTasks = 2e6;
constexpr int kFewestStreamed = 50;
constexpr int kMostStreamed = 1000;

std::int64_t sum_of_counts(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// Everybody holds something of whatever there is enough of for all; columns in multiples of `unit`.
Split least_shares(const Budget& budget, std::int64_t unit) {
  const model::Transformer& t = budget.plan().model;
  const bool columns = t.intermediate / unit >= static_cast<std::int64_t>(budget.devices());
  return {.heads = Counts(budget.devices(), columns ? 0 : 1),
          .columns = Counts(budget.devices(), columns ? unit : 0)};
}

// earliest() in multiples of `unit`, which divides `least` and `total`.
std::optional<Counts> earliest_of(const Race& race, Counts least, Counts most, std::int64_t total,
                                  std::int64_t unit) {
  if (unit == 1) return earliest(race, least, most, total);
  const Race units{
      .time = [&](std::size_t phase, std::size_t device,
                  std::int64_t count) { return race.time(phase, device, count * unit); },
      .units = [&](std::size_t phase, std::size_t device,
                   double seconds) { return race.units(phase, device, seconds) / unit; },
      .weight = race.weight,
      .limit = race.limit};
  for (std::int64_t& count : least) count /= unit;
  for (std::int64_t& count : most)
    if (count >= 0) count /= unit;
  std::optional<Counts> counts = earliest(units, least, most, total / unit);
  if (counts)
    for (std::int64_t& count : *counts) count *= unit;
  return counts;
}

class ShareSearch {
 public:
  // `streamed`: as of split_candidates.
  ShareSearch(const Budget& budget, const SplitTime& streamed)
      : budget_(&budget), clock_(budget), streamed_(&streamed) {
    constexpr double kTasks = 16.0;  // of a layer and device, about
    const double tasks =
        kTasks * static_cast<double>(transformer().layers) * static_cast<double>(budget.devices());
    most_streamed_ = static_cast<int>(
        std::clamp(kStreamedTasks / tasks, double{kFewestStreamed}, double{kMostStreamed}));
  }

  // The best split that is found from `start`, which fits, with columns in its units; or in the
  // smallest, where some device had better have next to nothing and that is worth it.
  Split from(const Split& start) {
    left_ = most_streamed_;
    const std::int64_t unit = column_unit(transformer(), start);
    Split best = improved(start, unit);
    const std::int64_t least = least_column_unit(transformer());
    if (unit == least || search_ended() ||
        std::ranges::find(best.columns, unit) == best.columns.end())
      return best;
    Split single = improved(best, least);
    const double limit = this->time(best) * kSingleColumns;
    return this->time(single, limit) < limit ? single : best;
  }

  // The time; instead of one that is not below `limit`, any such.
  double time(const Split& split, double limit = kNever) {
    if (!*streamed_) return clock_.time(split);
    const auto [known, fresh] = times_.try_emplace({split.heads, split.columns}, Timed{});
    Timed& timed = known->second;
    if (fresh && (left_-- <= 0 || search_ended())) timed = {.least = kNever, .exact = true};
    if (timed.exact) return timed.least;
    if (streamed_->least && limit < kNever && timed.least < limit)
      timed.least = std::max(timed.least, streamed_->least(split, limit));
    if (timed.least < limit || limit == kNever) timed = {streamed_->time(split), true};
    return timed.least;
  }
  // Returns whether candidate shares were rejected because they did not fit.
  [[nodiscard]] bool memory_binds() const { return memory_binds_; }

 private:
  [[nodiscard]] const model::Transformer& transformer() const { return budget_->plan().model; }

  // The best split that is found from `start` with columns in multiples of `unit`.
  Split improved(const Split& start, std::int64_t unit) {
    unit_ = unit;
    least_ = least_shares(*budget_, unit);
    Split best = start;
    double time = this->time(best);
    descend(best, time, start);
    polish(best, time);
    // A device far away costs less without heads, but only without any.
    for (std::size_t d = 0; d < budget_->devices(); ++d) {
      if (search_ended()) break;
      if (best.heads[d] == 0 || best.columns[d] == 0) continue;
      descend(best, time, rebalanced(best, clock_.measure(best), d));
    }
    return best;
  }

  // Rebalances from `split` on; stores improvements in `best`.
  void descend(Split& best, double& time, Split split) {
    for (int round = 0; round < kRounds && !search_ended(); ++round) {
      const SplitClock::Measured measured = clock_.measure(split);
      const double taken = *streamed_ ? this->time(split, time * kBetter) : measured.time;
      if (taken < time * kBetter) {
        time = taken;
        best = split;
      } else if (round > 3) {
        break;
      }
      Split next = rebalanced(split, measured);
      if (next == split) break;
      split = std::move(next);
    }
  }

  [[nodiscard]] Counts most_heads(const Counts& columns, GroupCut cut) const {
    Counts most(columns.size());
    for (std::size_t d = 0; d < most.size(); ++d) most[d] = budget_->max_heads(d, columns[d], cut);
    return most;
  }
  [[nodiscard]] Counts most_columns(const Counts& heads, GroupCut cut) const {
    Counts most(heads.size());
    for (std::size_t d = 0; d < most.size(); ++d) most[d] = budget_->max_columns(d, heads[d], cut);
    return most;
  }

  // Returns shares that are as early as possible by the measurements of `split`; if memory binds,
  // first heads beside its columns and then columns beside those heads, or the other way round.
  // Device `without` gets no heads.
  Split rebalanced(const Split& split, const SplitClock::Measured& measured,
                   std::optional<std::size_t> without = {}) {
    const Race head_race = clock_.heads(measured);
    const Race column_race = clock_.columns(measured);
    const auto heads = [&](Counts most) {
      if (without) most[*without] = least_.heads[*without];
      return earliest(head_race, least_.heads, most, transformer().heads);
    };
    const auto columns = [&](const Counts& most) {
      return earliest_of(column_race, least_.columns, most, transformer().intermediate, unit_);
    };
    const std::size_t n = budget_->devices();
    const auto free_heads = heads(Counts(n, transformer().heads));
    const auto free_columns = columns(Counts(n, transformer().intermediate));
    if (free_heads && free_columns) {
      Split free{*free_heads, *free_columns};
      if (budget_->fits(free)) return free;
    }
    memory_binds_ = true;
    Split best = split;
    double time = std::numeric_limits<double>::infinity();
    const auto consider = [&](const std::optional<Counts>& h, const std::optional<Counts>& c) {
      if (!h || !c) return;
      Split candidate{*h, *c};
      if (candidate == split || !budget_->fits(candidate)) return;
      const double taken = this->time(candidate, time);
      if (taken >= time) return;
      time = taken;
      best = std::move(candidate);
    };
    for (const GroupCut cut : {GroupCut::none, GroupCut::worst}) {
      if (const auto h = heads(most_heads(split.columns, cut)))
        consider(h, columns(most_columns(*h, cut)));
      if (const auto c = columns(most_columns(split.heads, cut)))
        consider(heads(most_heads(*c, cut)), c);
      if (const auto h = heads(most_heads(least_.columns, cut)))
        consider(h, columns(most_columns(*h, cut)));
      if (const auto c = columns(most_columns(least_.heads, cut)))
        consider(heads(most_heads(*c, cut)), c);
    }
    return best;
  }

  // Moves of runs of columns that get smaller, down to one unit, and of single heads; where
  // weights stream, from half of all columns and heads or two equal shares on, as what pays may be
  // far away.
  void polish(Split& best, double& time) {
    const std::int64_t columns = transformer().intermediate;
    const std::int64_t heads = transformer().heads;
    const auto devices = static_cast<std::int64_t>(budget_->devices());
    const std::int64_t widest =
        *streamed_ ? std::min(columns / 2, 2 * columns / devices) : columns / (8 * devices);
    int moves = 0;
    for (std::int64_t units = std::max<std::int64_t>(1, widest / unit_); units > 0; units /= 2) {
      const std::int64_t run = units * unit_;
      const std::int64_t some =
          *streamed_ ? std::max<std::int64_t>(1, heads * run / columns) : std::int64_t{1};
      for (bool moved = true; moved && moves < kMoves; ++moves) {
        if ((*streamed_ && left_ <= 0) || search_ended()) return;
        const SplitClock::Measured measured = clock_.measure(best);
        moved = move(best, time, &Split::heads, some, clock_.heads(measured)) ||
                move(best, time, &Split::columns, run, clock_.columns(measured));
      }
    }
  }

  // Takes the first move of `run` that shortens the time, from a device that is late in some phase
  // to one that stays early.
  bool move(Split& best, double& time, Counts Split::*dimension, std::int64_t run,
            const Race& race) {
    using Ranked = std::vector<std::pair<double, std::size_t>>;
    const Counts now = best.*dimension;
    const Counts& least = least_.*dimension;
    const auto late = [&](std::size_t phase, std::size_t d, std::int64_t count) {
      return race.weight[phase] * (race.time(phase, d, count) - race.limit[phase][d]);
    };
    Ranked sources;
    Ranked sinks;
    for (std::size_t d = 0; d < now.size(); ++d) {
      double most = -std::numeric_limits<double>::infinity();
      double sum = 0.0;
      for (std::size_t phase = 0; phase < race.weight.size(); ++phase) {
        most = std::max(most, late(phase, d, now[d]));
        if (now[d] + run <= total(dimension)) sum += std::max(0.0, late(phase, d, now[d] + run));
      }
      if (now[d] >= least[d] + run) sources.emplace_back(-most, d);
      if (now[d] + run <= total(dimension)) sinks.emplace_back(sum, d);
    }
    std::sort(sources.begin(), sources.end());
    std::sort(sinks.begin(), sinks.end());
    // Who is late by computing alone need not be where weights stream.
    if (!*streamed_) {
      sources.resize(std::min(sources.size(), kSources));
      sinks.resize(std::min(sinks.size(), kSinks));
    }
    for (const auto& [unused_from, from] : sources) {
      for (const auto& [unused_to, to] : sinks) {
        if (from == to) continue;
        if (search_ended()) return false;
        Split candidate = best;
        (candidate.*dimension)[from] -= run;
        (candidate.*dimension)[to] += run;
        if (!budget_->fits(candidate)) continue;
        const double taken = this->time(candidate, time * kBetter);
        if (taken >= time * kBetter) continue;
        time = taken;
        best = std::move(candidate);
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] std::int64_t total(Counts Split::*dimension) const {
    return dimension == &Split::heads ? transformer().heads : transformer().intermediate;
  }

  const Budget* budget_;
  SplitClock clock_;
  std::int64_t unit_ = 1;  // of columns
  Split least_;
  const SplitTime* streamed_;
  struct Timed {
    double least = 0.0;  // the time, or what it is not below
    bool exact = false;
  };
  std::map<std::pair<Counts, Counts>, Timed> times_;  // of whole plans
  int most_streamed_ = 0;  // whole plans that are evaluated from one start
  int left_ = 0;           // of them
  bool memory_binds_ = false;
};

bool all_busy(const Split& split) {
  for (std::size_t d = 0; d < split.heads.size(); ++d) {
    if (split.heads[d] == 0 && split.columns[d] == 0) return false;
  }
  return true;
}

// any_split() with columns in multiples of `unit`.
std::optional<Split> any_split(const Budget& budget, std::int64_t unit) {
  // columns[d][h]: the most columns that the first d devices hold beside h heads; -1: infeasible.
  const std::int64_t heads = budget.plan().model.heads;
  const auto states = static_cast<std::size_t>(heads) + 1;
  const auto least = [&](std::int64_t count) { return count > 0 ? 0 : unit; };
  std::vector<Counts> columns{Counts(states, -1)};
  std::vector<Counts> taken{Counts(states, -1)};
  columns.front().front() = 0;
  for (std::size_t d = 0; d < budget.devices(); ++d) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> most;  // by key/value heads
    Counts best(states, -1);
    Counts choice(states, -1);
    for (std::int64_t begin = 0; begin <= heads; ++begin) {
      const std::int64_t before = columns.back()[static_cast<std::size_t>(begin)];
      if (before < 0) continue;
      for (std::int64_t count = 0; begin + count <= heads; ++count) {
        const model::Range range{static_cast<std::int32_t>(begin),
                                 static_cast<std::int32_t>(begin + count)};
        const auto key = std::pair(count, budget.plan().model.kv_heads_for(range).size());
        auto found = most.find(key);
        if (found == most.end()) {
          const std::int64_t room_for = budget.max_columns(d, range);
          found = most.emplace(key, room_for < 0 ? room_for : room_for / unit * unit).first;
        }
        if (found->second < least(count)) continue;
        const auto end = static_cast<std::size_t>(begin + count);
        const std::int64_t sum = before + found->second;
        if (sum <= best[end]) continue;
        best[end] = sum;
        choice[end] = count;
      }
    }
    columns.push_back(std::move(best));
    taken.push_back(std::move(choice));
  }
  std::int64_t missing = budget.plan().model.intermediate;
  if (columns.back().back() < missing) return std::nullopt;
  Split split{Counts(budget.devices()), Counts(budget.devices())};
  Counts room(budget.devices());
  std::int64_t end = heads;
  for (std::size_t d = budget.devices(); d-- > 0;) {
    const auto at = static_cast<std::size_t>(end);
    split.heads[d] = taken[d + 1][at];
    end -= split.heads[d];
    split.columns[d] = least(split.heads[d]);
    room[d] = columns[d + 1][at] - columns[d][static_cast<std::size_t>(end)] - split.columns[d];
  }
  missing -= sum_of_counts(split.columns);
  if (missing < 0) return std::nullopt;
  for (std::size_t d = 0; d < room.size(); ++d) {
    const std::int64_t more = std::min(missing, room[d]);
    split.columns[d] += more;
    missing -= more;
  }
  return split;
}

}  // namespace

std::optional<Split> any_split(const Budget& budget) {
  if (!budget.may_fit()) return std::nullopt;
  const std::int64_t unit = column_unit(budget.plan().model);
  std::optional<Split> split = any_split(budget, unit);
  const std::int64_t least = least_column_unit(budget.plan().model);
  if (!split && unit > least) split = any_split(budget, least);
  return split;
}

SplitCandidates split_candidates(const Budget& budget, const SplitTime& streamed) {
  std::vector<Split> starts;
  const auto add = [&](std::vector<Split>& splits, Split split) {
    if (budget.fits(split) && all_busy(split) &&
        std::find(splits.begin(), splits.end(), split) == splits.end())
      splits.push_back(std::move(split));
  };
  add(starts, galaxy_split(budget, capacities(budget.plan())));
  add(starts, proportional_split(budget.plan().model, std::vector<double>(budget.devices(), 1.0)));
  if (starts.empty()) {
    if (auto split = any_split(budget)) add(starts, std::move(*split));
  }
  SplitCandidates result;
  std::vector<Split>& candidates = result.splits;
  std::vector<Split> origins;
  if (streamed) {
    const SplitTime none;
    ShareSearch in_memory(budget, none);
    for (const Split& start : starts) add(origins, in_memory.from(start));
    result.memory_binds = in_memory.memory_binds();
  }
  for (const Split& start : starts) add(origins, start);
  ShareSearch search(budget, streamed);
  double least = std::numeric_limits<double>::infinity();
  for (const Split& start : origins) {
    Split found = search.from(start);
    const double time = search.time(found);
    if (time >= least * kBetter) continue;
    least = time;
    candidates.clear();
    candidates.push_back(std::move(found));
  }
  for (Split& start : starts) add(candidates, std::move(start));
  result.memory_binds = result.memory_binds || search.memory_binds();
  return result;
}

}  // namespace tandem::planner
