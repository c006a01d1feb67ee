#include "planner/partition/exact/earliest.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>

namespace tandem::planner {
namespace {

constexpr int kHalvings = 36;
constexpr int kSteps = 12;     // of the first phase's lateness
constexpr int kRefinings = 2;  // each between the neighbours of the best step

std::int64_t sum_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

double lateness_of(const Race& race, std::size_t phase, const Counts& counts) {
  double latest = -std::numeric_limits<double>::infinity();
  for (std::size_t d = 0; d < counts.size(); ++d) {
    if (counts[d] == 0) continue;
    latest = std::max(latest, race.time(phase, d, counts[d]) - race.limit[phase][d]);
  }
  return latest;
}

// Returns the units of a device if it may be that late.
std::int64_t within(const Race& race, std::size_t phase, double late, std::size_t device,
                    std::int64_t least, std::int64_t most) {
  return std::clamp(race.units(phase, device, late + race.limit[phase][device]), least, most);
}

Counts within(const Race& race, std::size_t phase, double late, const Counts& least,
              const Counts& most) {
  Counts counts(least.size());
  for (std::size_t d = 0; d < counts.size(); ++d)
    counts[d] = within(race, phase, late, d, least[d], most[d]);
  return counts;
}

// By one phase alone: the least lateness by halving, and the last few units one by one to the
// device that is then the earliest. Exact, as times grow with units. `least` <= `most`, whose sum
// suffices.
Counts earliest_of(const Race& race, std::size_t phase, const Counts& least, const Counts& most,
                   std::int64_t total) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (std::size_t d = 0; d < least.size(); ++d) {
    if (most[d] == 0) continue;
    const double limit = race.limit[phase][d];
    low = std::min(low, race.time(phase, d, std::max<std::int64_t>(1, least[d])) - limit);
    high = std::max(high, race.time(phase, d, most[d]) - limit);
  }
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = low + (high - low) / 2.0;
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < least.size(); ++d)
      sum += within(race, phase, middle, d, least[d], most[d]);
    (sum > total ? high : low) = middle;
  }
  Counts counts = within(race, phase, low, least, most);
  if (sum_of(counts) > total) counts = least;
  using Next = std::pair<double, std::size_t>;  // how late a device is with one more
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  const auto enter = [&](std::size_t d) {
    if (counts[d] < most[d])
      queue.emplace(race.time(phase, d, counts[d] + 1) - race.limit[phase][d], d);
  };
  for (std::size_t d = 0; d < counts.size(); ++d) enter(d);
  for (std::int64_t missing = total - sum_of(counts); missing > 0; --missing) {
    const std::size_t d = queue.top().second;
    queue.pop();
    ++counts[d];
    enter(d);
  }
  return counts;
}

}  // namespace

double lateness(const Race& race, const Counts& counts) {
  double sum = 0.0;
  for (std::size_t phase = 0; phase < race.weight.size(); ++phase)
    sum += race.weight[phase] * lateness_of(race, phase, counts);
  return sum;
}

std::optional<Counts> earliest(const Race& race, const Counts& least, const Counts& most,
                               std::int64_t total) {
  for (std::size_t d = 0; d < least.size(); ++d) {
    if (least[d] > most[d]) return std::nullopt;
  }
  if (sum_of(least) > total || sum_of(most) < total) return std::nullopt;
  Counts best = earliest_of(race, 0, least, most, total);
  if (race.weight.size() == 1) return best;
  double time = lateness(race, best);
  double low = lateness_of(race, 0, best);
  const auto consider = [&](Counts counts) {
    const double taken = lateness(race, counts);
    if (taken >= time) return false;
    time = taken;
    best = std::move(counts);
    return true;
  };
  Counts second = earliest_of(race, 1, least, most, total);
  double high = lateness_of(race, 0, second);
  consider(std::move(second));
  for (int refining = 0; refining <= kRefinings && low < high; ++refining) {
    const double step = (high - low) / kSteps;
    double middle = lateness_of(race, 0, best);
    for (int i = 0; i <= kSteps; ++i) {
      const double late = low + step * i;
      const Counts caps = within(race, 0, late, least, most);
      if (sum_of(caps) < total) continue;
      if (consider(earliest_of(race, 1, least, caps, total))) middle = late;
    }
    low = std::max(low, middle - step);
    high = std::min(high, middle + step);
  }
  return best;
}

}  // namespace tandem::planner
