#include "planner/partition/exact/chain.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "model/base/error.hpp"
#include "planner/partition/exact/time_order.hpp"

namespace tandem::planner {
namespace {

constexpr double kChainRounding = 1e-12;

// A candidate split of layers or order of devices: its contribution to a round, and the largest
// occupancy of one device or channel.
struct ChainPart {
  double sum_s = 0.0;
  double most_s = 0.0;
};

double busy(const ChainDevice& device, double layers) {
  return device.fixed_s + device.layer_s * layers;
}

// Returns the split with the least total time in which no device takes longer than `most_s`; of
// whole layers or of any parts of them. Empty if they do not fit.
std::vector<double> shared_out(const ChainProblem& problem, double most_s, bool whole) {
  std::vector<double> layers(problem.devices.size(), 1.0);
  std::vector<std::size_t> fastest(layers.size());
  std::iota(fastest.begin(), fastest.end(), std::size_t{0});
  std::ranges::stable_sort(fastest, {}, [&](std::size_t d) { return problem.devices[d].layer_s; });
  double left = static_cast<double>(problem.layers) - static_cast<double>(layers.size());
  if (left < 0.0) return {};
  for (const std::size_t d : fastest) {
    const ChainDevice& device = problem.devices[d];
    auto most = static_cast<double>(device.most);
    if (device.layer_s > 0.0) {
      const double room = (most_s * (1.0 + kChainRounding) - device.fixed_s) / device.layer_s;
      most = std::min(most, whole ? std::floor(room + kChainRounding * std::abs(room)) : room);
    } else if (device.fixed_s > most_s * (1.0 + kChainRounding)) {
      return {};
    }
    if (most < 1.0 - kChainRounding) return {};
    const double more = std::clamp(left, 0.0, std::max(0.0, most - 1.0));
    layers[d] += more;
    left -= more;
  }
  if (left > kChainRounding * static_cast<double>(problem.layers)) return {};
  return layers;
}

ChainPart part_of(const ChainProblem& problem, const std::vector<double>& layers) {
  ChainPart part;
  for (std::size_t d = 0; d < layers.size(); ++d) {
    const double seconds = busy(problem.devices[d], layers[d]);
    part.sum_s += seconds;
    part.most_s = std::max(part.most_s, seconds);
  }
  return part;
}

ChainPart part_of(const ChainProblem& problem, const std::vector<std::size_t>& order) {
  ChainPart part;
  if (order.size() < 2) return part;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const ChainMessage& message = problem.messages[order[i]][order[(i + 1) % order.size()]];
    part.sum_s += message.channel_s + message.latency_s;
    part.most_s = std::max(part.most_s, message.channel_s);
  }
  return part;
}

double period(const ChainProblem& problem, const ChainPart& layers, const ChainPart& order) {
  return std::max({(layers.sum_s + order.sum_s) / static_cast<double>(problem.samples),
                   layers.most_s, order.most_s});
}

// Returns the possible occupancies of channels, each once and ascending.
std::vector<double> channel_times(const ChainProblem& problem) {
  std::vector<double> times;
  for (std::size_t a = 0; a < problem.devices.size(); ++a) {
    for (std::size_t b = 0; b < problem.devices.size(); ++b) {
      if (a != b) times.push_back(problem.messages[a][b].channel_s);
    }
  }
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

// Returns the shortest round over channels with occupancy at most `most_s`; empty if there is none.
std::vector<std::size_t> shortest_round(const ChainProblem& problem, double most_s) {
  const std::size_t n = problem.devices.size();
  const std::size_t others = n - 1;  // device d is bit d - 1
  const auto step = [&](std::size_t from, std::size_t to) {
    const ChainMessage& message = problem.messages[from][to];
    return message.channel_s <= most_s ? message.channel_s + message.latency_s : kNever;
  };
  const std::size_t sets = std::size_t{1} << others;
  std::vector<double> best(sets * others, kNever);  // [set][last of it]
  std::vector<std::size_t> before(sets * others, 0);
  for (std::size_t d = 0; d < others; ++d)
    best[(std::size_t{1} << d) * others + d] = step(0, d + 1);
  for (std::size_t set = 1; set < sets; ++set) {
    for (std::size_t last = 0; last < others; ++last) {
      const double so_far = best[set * others + last];
      if (so_far == kNever) continue;
      for (std::size_t next = 0; next < others; ++next) {
        if ((set >> next & 1) != 0) continue;
        const std::size_t at = (set | std::size_t{1} << next) * others + next;
        const double sum = so_far + step(last + 1, next + 1);
        if (sum < best[at] * (1.0 - kChainRounding)) {
          best[at] = sum;
          before[at] = last;
        }
      }
    }
  }
  std::size_t end = others;
  double least = kNever;
  for (std::size_t last = 0; last < others; ++last) {
    const double sum = best[(sets - 1) * others + last] + step(last + 1, 0);
    if (sum == kNever || !(sum < least * (1.0 - kChainRounding))) continue;
    least = sum;
    end = last;
  }
  if (end == others) return {};
  std::vector<std::size_t> order;
  for (std::size_t set = sets - 1; set != 0;) {
    order.push_back(end + 1);
    const std::size_t previous = before[set * others + end];
    set ^= std::size_t{1} << end;
    end = previous;
  }
  order.push_back(0);
  std::ranges::reverse(order);
  return order;
}

// Devices in the given order first, so that no equally good order replaces it.
std::vector<std::size_t> given_order(const ChainProblem& problem) {
  std::vector<std::size_t> order(problem.devices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

struct Choice {
  double period_s = kNever;
  double round_s = kNever;
  // Returns whether the period is shorter by more than rounding, or equal with a shorter round.
  [[nodiscard]] bool better_than(const Choice& other) const {
    if (period_s < other.period_s * (1.0 - kChainRounding)) return true;
    return period_s <= other.period_s * (1.0 + kChainRounding) &&
           round_s < other.round_s * (1.0 - kChainRounding);
  }
};

Choice judge(const ChainProblem& problem, const ChainPart& layers, const ChainPart& order) {
  return {period(problem, layers, order), layers.sum_s + order.sum_s};
}

// From the given order on, one device moved at a time.
std::vector<std::size_t> moved_order(const ChainProblem& problem, const ChainPart& layers) {
  std::vector<std::size_t> order = given_order(problem);
  Choice best = judge(problem, layers, part_of(problem, order));
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t from = 1; from < order.size(); ++from) {
      for (std::size_t to = 1; to < order.size(); ++to) {
        if (from == to) continue;
        std::vector<std::size_t> other = order;
        const std::size_t device = other[from];
        other.erase(other.begin() + static_cast<std::ptrdiff_t>(from));
        other.insert(other.begin() + static_cast<std::ptrdiff_t>(to), device);
        const Choice found = judge(problem, layers, part_of(problem, other));
        if (!found.better_than(best)) continue;
        best = found;
        order = std::move(other);
        changed = true;
      }
    }
  }
  return order;
}

// No order's round is shorter, and none occupies its busiest channel less.
ChainPart least_messages(const ChainProblem& problem,
                         const std::vector<std::vector<std::size_t>>& orders, bool exact) {
  ChainPart least{kNever, kNever};
  if (exact) {
    for (const std::vector<std::size_t>& order : orders) {
      const ChainPart part = part_of(problem, order);
      least = {std::min(least.sum_s, part.sum_s), std::min(least.most_s, part.most_s)};
    }
    return least;
  }
  // Each device sends to some other.
  least = {};
  for (std::size_t a = 0; a < problem.devices.size(); ++a) {
    double sum = kNever;
    double channel = kNever;
    for (std::size_t b = 0; b < problem.devices.size(); ++b) {
      if (a == b) continue;
      const ChainMessage& message = problem.messages[a][b];
      sum = std::min(sum, message.channel_s + message.latency_s);
      channel = std::min(channel, message.channel_s);
    }
    least.sum_s += sum;
    least.most_s = std::max(least.most_s, channel);
  }
  return least;
}

// Returns the least period with parts of layers: where the round, which falls with each device's
// time, meets that time.
double bound(const ChainProblem& problem, const ChainPart& messages, double high) {
  double low = 0.0;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2.0;
    const std::vector<double> layers = shared_out(problem, middle, /*whole=*/false);
    const bool enough = !layers.empty() && (part_of(problem, layers).sum_s + messages.sum_s) /
                                                   static_cast<double>(problem.samples) <=
                                               middle;
    (enough ? high : low) = middle;
  }
  return std::max(low, messages.most_s);
}

}  // namespace

std::optional<ChainSplit> fastest_chain(const ChainProblem& problem) {
  const std::size_t n = problem.devices.size();
  require(n > 0 && problem.samples > 0 && problem.messages.size() == n, "fastest_chain: a chain");
  std::vector<double> times;
  for (const ChainDevice& device : problem.devices) {
    for (std::int64_t k = 1; k <= std::min(device.most, problem.layers); ++k)
      times.push_back(busy(device, static_cast<double>(k)));
  }
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  std::vector<std::vector<double>> splits;
  for (const double time : times) {
    std::vector<double> split = shared_out(problem, time, /*whole=*/true);
    if (!split.empty() && (splits.empty() || splits.back() != split))
      splits.push_back(std::move(split));
  }
  if (splits.empty()) return std::nullopt;

  const bool exact = n <= kMostOrdered;
  std::vector<std::vector<std::size_t>> orders{given_order(problem)};
  if (exact && n > 2) {
    for (const double time : channel_times(problem)) {
      std::vector<std::size_t> order = shortest_round(problem, time);
      if (!order.empty() && order != orders.back()) orders.push_back(std::move(order));
    }
  } else if (!exact) {
    for (const std::vector<double>& split : {splits.front(), splits.back()})
      orders.push_back(moved_order(problem, part_of(problem, split)));
  }
  ChainSplit best{.exact = exact};
  Choice least;
  for (const std::vector<double>& split : splits) {
    const ChainPart layers = part_of(problem, split);
    for (const std::vector<std::size_t>& order : orders) {
      const Choice choice = judge(problem, layers, part_of(problem, order));
      if (!choice.better_than(least)) continue;
      least = choice;
      best.layers.assign(split.begin(), split.end());
      best.order = order;
    }
  }
  best.period_s = least.period_s;
  const ChainPart messages = n < 2 ? ChainPart{} : least_messages(problem, orders, exact);
  best.bound_s = std::min(best.period_s, bound(problem, messages, best.period_s));
  return best;
}

}  // namespace tandem::planner
