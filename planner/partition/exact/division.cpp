#include "planner/partition/exact/division.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "model/base/error.hpp"
#include "planner/partition/exact/time_order.hpp"

namespace tandem::planner {
namespace {

constexpr double kFiner = 1.0 - 1e-12;  // less is rounding
constexpr int kShareHalvings = 60;

std::int64_t units_within(const DivisionDevice& device, double seconds, std::int64_t most) {
  if (seconds < device.first_s) return 0;
  if (device.next_s <= 0.0) return most;
  const double more = (seconds - device.first_s) / device.next_s;
  if (more >= static_cast<double>(most)) return most;
  auto units = 1 + static_cast<std::int64_t>(more);
  // The computed time of so many units suffices for them, whatever division rounds to.
  if (units < most && device.units_s(units + 1) <= seconds) ++units;
  return std::min(units, most);
}

class Divider {
 public:
  explicit Divider(const DivisionProblem& problem)
      : problem_(&problem), states_(static_cast<std::size_t>(problem.heads) + 1) {}

  // Returns whether all heads and units can be placed if device d takes at most cap(d, h, extra)
  // units beside h heads; negative: not that many heads.
  template <class Cap>
  bool fits(const Cap& cap) {
    const DivisionProblem& p = *problem_;
    most_.assign(1, std::vector<std::int64_t>(states_, -1));
    taken_.assign(1, std::vector<std::int64_t>(states_, -1));
    most_.front().front() = 0;
    std::vector<std::pair<std::int64_t, std::array<std::int64_t, 2>>> choices;
    for (std::size_t d = 0; d < p.devices.size(); ++d) {
      choices.clear();
      for (std::int64_t h = p.least_heads; h <= p.heads; ++h) {
        std::array<std::int64_t, 2> caps{};
        for (std::size_t extra = 0; extra < 2; ++extra) {
          caps.at(extra) = cap(d, h, extra);
          if (caps.at(extra) < least_units(h)) caps.at(extra) = -1;
        }
        if (caps[0] >= 0 || caps[1] >= 0) choices.emplace_back(h, caps);
      }
      std::vector<std::int64_t> best(states_, -1);
      std::vector<std::int64_t> choice(states_, -1);
      for (std::int64_t begin = 0; begin <= p.heads; ++begin) {
        const std::int64_t before = most_.back()[static_cast<std::size_t>(begin)];
        if (before < 0) continue;
        for (const auto& [h, caps] : choices) {
          if (begin + h > p.heads) break;
          const std::int64_t room = caps.at(extra_of(begin, h));
          const auto end = static_cast<std::size_t>(begin + h);
          if (room < 0 || before + room <= best[end]) continue;
          best[end] = before + room;
          choice[end] = h;
        }
      }
      most_.push_back(std::move(best));
      taken_.push_back(std::move(choice));
    }
    return most_.back().back() >= p.units;
  }

  // Heads by device of the last fits(), which was true.
  [[nodiscard]] std::vector<std::int64_t> heads() const {
    std::vector<std::int64_t> heads(problem_->devices.size());
    std::int64_t end = problem_->heads;
    for (std::size_t d = heads.size(); d-- > 0;) {
      heads[d] = taken_[d + 1][static_cast<std::size_t>(end)];
      end -= heads[d];
    }
    return heads;
  }

  [[nodiscard]] std::int64_t least_units(std::int64_t heads) const {
    return std::max(problem_->least_units, std::int64_t{problem_->all_busy && heads == 0 ? 1 : 0});
  }

  // Returns whether heads [begin, begin + count) touch one key/value head more than necessary.
  [[nodiscard]] std::size_t extra_of(std::int64_t begin, std::int64_t count) const {
    if (count == 0 || problem_->group == 1) return 0;
    const std::int64_t g = problem_->group;
    const std::int64_t touched = (begin + count - 1) / g - begin / g + 1;
    return touched > (count + g - 1) / g ? 1 : 0;
  }

 private:
  const DivisionProblem* problem_;
  std::size_t states_;
  std::vector<std::vector<std::int64_t>> most_{};   // [devices][heads]: units that have room
  std::vector<std::vector<std::int64_t>> taken_{};  // heads of the last of them
};

struct Limits {
  double heads_s = 0.0;
  double units_s = 0.0;
};

auto cap_within(const DivisionProblem& problem, Limits limits) {
  // The limits of time do not depend on heads.
  std::vector<std::int64_t> allowed;
  for (const DivisionDevice& device : problem.devices)
    allowed.push_back(units_within(device, limits.units_s, problem.units));
  return [&problem, limits, allowed = std::move(allowed)](std::size_t d, std::int64_t heads,
                                                          std::size_t extra) -> std::int64_t {
    const DivisionDevice& device = problem.devices[d];
    const auto h = static_cast<std::size_t>(heads);
    if (device.heads_s[h].at(extra) > limits.heads_s) return -1;
    return std::min(device.room[h].at(extra), allowed[d]);
  };
}

std::vector<double> head_times(const DivisionProblem& problem) {
  std::vector<double> times;
  for (const DivisionDevice& device : problem.devices)
    for (const auto& pair : device.heads_s) times.insert(times.end(), pair.begin(), pair.end());
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

// Returns units by device beside `heads`, within `limits`; the surplus is taken from the latest.
std::vector<std::int64_t> deal(const DivisionProblem& problem, const Divider& divider,
                               const std::vector<std::int64_t>& heads, Limits limits) {
  std::vector<std::int64_t> units;
  const auto cap = cap_within(problem, limits);
  std::int64_t begin = 0;
  for (std::size_t d = 0; d < heads.size(); ++d) {
    units.push_back(cap(d, heads[d], divider.extra_of(begin, heads[d])));
    begin += heads[d];
  }
  std::int64_t surplus = std::accumulate(units.begin(), units.end(), -problem.units);
  using Late = std::pair<double, std::size_t>;
  std::priority_queue<Late> latest;
  const auto enter = [&](std::size_t d) {
    if (units[d] > divider.least_units(heads[d]))
      latest.emplace(problem.devices[d].units_s(units[d]), d);
  };
  for (std::size_t d = 0; d < units.size(); ++d) enter(d);
  for (; surplus > 0 && !latest.empty(); --surplus) {
    const std::size_t d = latest.top().second;
    latest.pop();
    --units[d];
    enter(d);
  }
  return units;
}

Division measured(const DivisionProblem& problem, const Divider& divider,
                  std::vector<std::int64_t> heads, std::vector<std::int64_t> units) {
  Division division{.heads = std::move(heads), .units = std::move(units)};
  std::int64_t begin = 0;
  for (std::size_t d = 0; d < problem.devices.size(); ++d) {
    const DivisionDevice& device = problem.devices[d];
    const std::size_t extra = divider.extra_of(begin, division.heads[d]);
    division.heads_s = std::max(
        division.heads_s, device.heads_s[static_cast<std::size_t>(division.heads[d])].at(extra));
    division.units_s = std::max(division.units_s, device.units_s(division.units[d]));
    begin += division.heads[d];
  }
  return division;
}

double longest_units(const DivisionProblem& problem) {
  double most = 0.0;
  for (const DivisionDevice& device : problem.devices)
    most = std::max(most, device.units_s(problem.units));
  return most;
}

// The least x in [low, high] for which enough(x), to rounding; high suffices.
template <class Enough>
double least_of(double low, double high, const Enough& enough) {
  if (enough(low)) return low;
  for (int i = 0; i < kShareHalvings; ++i) {
    const double middle = low + (high - low) / 2.0;
    if (middle <= low || middle >= high) break;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

// The FFN's least time if memory were no limit.
double free_units_s(const DivisionProblem& problem, double longest) {
  return least_of(0.0, longest, [&](double seconds) {
    std::int64_t sum = 0;
    for (const DivisionDevice& device : problem.devices)
      sum += units_within(device, seconds, problem.units);
    return sum >= problem.units;
  });
}

void check(const DivisionProblem& problem) {
  require(
      problem.heads >= 1 && problem.units >= 1 && problem.group >= 1 && !problem.devices.empty(),
      "division: heads, units and devices");
  const auto states = static_cast<std::size_t>(problem.heads) + 1;
  for (const DivisionDevice& device : problem.devices) {
    require(device.heads_s.size() == states && device.room.size() == states,
            "division: a time and a room for each number of heads");
  }
}

}  // namespace

std::optional<Division> least_stragglers(const DivisionProblem& problem) {
  check(problem);
  Divider divider(problem);
  const auto enough = [&](Limits limits) { return divider.fits(cap_within(problem, limits)); };
  const double longest = longest_units(problem);
  const std::vector<double> times = head_times(problem);
  // More time for heads never fits less.
  std::size_t first = 0;
  for (std::size_t beyond = times.size(); first < beyond;) {
    const std::size_t middle = first + (beyond - first) / 2;
    if (enough({times[middle], longest})) {
      beyond = middle;
    } else {
      first = middle + 1;
    }
  }
  const double least_units_s = free_units_s(problem, longest);
  std::optional<Division> best;
  double least = kNever;
  for (std::size_t i = first; i < times.size(); ++i) {
    if (times[i] + least_units_s >= least * kFiner) break;
    const double most = std::min(longest, least * kFiner - times[i]);
    if (!enough({times[i], most})) continue;
    const double units_s = least_of(std::min(least_units_s, most), most, [&](double seconds) {
      return enough({times[i], seconds});
    });
    const Limits limits{times[i], units_s};
    require(enough(limits), "division: what was enough is enough");
    std::vector<std::int64_t> heads = divider.heads();
    std::vector<std::int64_t> units = deal(problem, divider, heads, limits);
    // Devices without heads each need a unit: infeasible with fewer units than those.
    if (std::accumulate(units.begin(), units.end(), std::int64_t{0}) > problem.units) continue;
    Division found = measured(problem, divider, std::move(heads), std::move(units));
    if (found.heads_s + found.units_s >= least) continue;
    least = found.heads_s + found.units_s;
    best = std::move(found);
  }
  return best;
}

double least_straggler_of_both(const DivisionProblem& problem) {
  check(problem);
  Divider divider(problem);
  const auto enough = [&](double seconds) {
    return divider.fits([&](std::size_t d, std::int64_t heads, std::size_t extra) -> std::int64_t {
      const DivisionDevice& device = problem.devices[d];
      const auto h = static_cast<std::size_t>(heads);
      const double left = seconds - device.heads_s[h].at(extra);
      if (left < 0.0) return -1;
      return std::min(device.room[h].at(extra), units_within(device, left, problem.units));
    });
  };
  double high = longest_units(problem) + head_times(problem).back();
  if (!enough(high)) return kNever;
  // The lower end, which does not suffice: the bound may not be above the least.
  double low = 0.0;
  if (enough(low)) return low;
  for (int i = 0; i < kShareHalvings; ++i) {
    const double middle = low + (high - low) / 2.0;
    if (middle <= low || middle >= high) break;
    (enough(middle) ? high : low) = middle;
  }
  return low;
}

}  // namespace tandem::planner
