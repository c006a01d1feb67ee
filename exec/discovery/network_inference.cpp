#include "exec/discovery/network_inference.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/statistics.hpp"

namespace tandem::exec {
namespace {

constexpr double kFlowWeight = 0.15;
constexpr double kSaturated = 0.99;
constexpr int kFitRounds = 5;
// What a segment more has to lower the error by. Rates that are 5% off in some 50 flows, and pairs
// that share unequally, are an error of 0.2 to 0.5, of which one rate more takes up to a third; one
// half-duplex link is 0.9 for each pair that uses it both ways.
constexpr double kLeastGain = 0.4;
constexpr double kLeastPart = 0.15;
constexpr double kBetter = 0.98;  // of the error, for a larger set to be preferred
constexpr double kSlower = 1.2;   // than predicted: a path of its own
constexpr int kAllSets = 5;       // devices, up to which every set is tried
constexpr std::size_t kSeeds = 4;

struct Load {
  double out = 0.0;
  double in = 0.0;
};

Load load_of(const Segment& segment, const Trial& trial, const std::vector<double>& rates) {
  Load load;
  for (std::size_t f = 0; f < trial.size(); ++f) {
    const Passes of = passes(segment, trial[f].from, trial[f].to);
    if (of.out > 0) load.out += of.out * rates[f];
    if (of.in > 0) load.in += of.in * rates[f];
  }
  return load;
}

std::vector<double> rates_of(const Trial& trial) {
  std::vector<double> rates;
  for (const Flow& flow : trial) rates.push_back(flow.rate);
  return rates;
}

class Inference {
 public:
  explicit Inference(const NetworkMeasurements& measured) : measured_(measured) {
    rates_.reserve(measured.trials.size());
    for (const Trial& trial : measured.trials) rates_.push_back(rates_of(trial));
  }

  std::vector<Segment> segments() {
    std::vector<Segment> best;
    best.reserve(static_cast<std::size_t>(measured_.devices));
    for (int d = 0; d < measured_.devices; ++d)
      best.push_back({.kind = SegmentKind::port, .members = DeviceSet{1} << d});
    double error = fitted(best);
    while (std::optional<std::pair<std::vector<Segment>, double>> next = extended(best)) {
      if (error - next->second < std::max(kLeastGain, kLeastPart * error)) break;
      best = std::move(next->first);
      error = next->second;
    }
    drop_idle_ports(best, error);
    add_paths(best);
    return best;
  }

 private:
  // Sets the rates of `segments` and returns the error.
  double fitted(std::vector<Segment>& segments) const {
    for (Segment& segment : segments) {
      if (is_dropped(segment)) continue;
      segment.out = 0.0;
      segment.in = 0.0;
      for (std::size_t t = 0; t < rates_.size(); ++t) {
        const Load load = load_of(segment, measured_.trials[t], rates_[t]);
        segment.out = std::max(segment.out, load.out);
        segment.in = std::max(segment.in, load.in);
      }
    }
    std::vector<std::vector<double>> predicted(rates_.size());
    for (int round = 0; round <= kFitRounds; ++round) {
      for (std::size_t t = 0; t < rates_.size(); ++t)
        predicted[t] = fair_rates(segments, measured_.trials[t]);
      if (round == kFitRounds) break;
      for (Segment& segment : segments) refit(segment, predicted);
    }
    double error = 0.0;
    for (std::size_t t = 0; t < rates_.size(); ++t) error += trial_error(predicted[t], rates_[t]);
    return error;
  }

  void refit(Segment& segment, const std::vector<std::vector<double>>& predicted) const {
    if (is_dropped(segment)) return;
    std::vector<double> out;
    std::vector<double> in;
    for (std::size_t t = 0; t < rates_.size(); ++t) {
      const Trial& trial = measured_.trials[t];
      const Load wanted = load_of(segment, trial, predicted[t]);
      if (wanted.out < kSaturated * segment.out && wanted.in < kSaturated * segment.in) continue;
      const Load had = load_of(segment, trial, rates_[t]);
      if (wanted.out >= kSaturated * segment.out && wanted.out > 0.0) out.push_back(had.out);
      if (wanted.in >= kSaturated * segment.in && wanted.in > 0.0) in.push_back(had.in);
    }
    if (!out.empty()) segment.out = model::quantile(out, 0.5);
    if (!in.empty()) segment.in = model::quantile(in, 0.5);
  }

  static double trial_error(const std::vector<double>& predicted, const std::vector<double>& had) {
    const auto squared = [](double a, double b) {
      const double ratio = std::clamp(std::log(a / b), -2.0, 2.0);
      return ratio * ratio;
    };
    double sum_predicted = 0.0;
    double sum_had = 0.0;
    double error = 0.0;
    for (std::size_t f = 0; f < had.size(); ++f) {
      sum_predicted += predicted[f];
      sum_had += had[f];
      error += kFlowWeight * squared(predicted[f], had[f]);
    }
    return error + static_cast<double>(had.size()) * squared(sum_predicted, sum_had);
  }

  [[nodiscard]] bool useful(const Segment& candidate) const {
    const int n = measured_.devices;
    const int size = std::popcount(candidate.members);
    // Of two devices all traffic is of both; a bridge of one is a medium of one, and an uplink of
    // one its port. What separates a set separates the others, too.
    if (candidate.kind == SegmentKind::medium) return size == 1 || n > 2;
    return size >= 2 && (2 * size < n || (2 * size == n && (candidate.members & 1U) != 0));
  }

  // `segments` with the best one segment more, and the error; nothing if there is no other.
  [[nodiscard]] std::optional<std::pair<std::vector<Segment>, double>> extended(
      const std::vector<Segment>& segments) const {
    std::optional<std::pair<std::vector<Segment>, double>> best;
    const auto consider = [&](SegmentKind kind, DeviceSet members) {
      Segment candidate{.kind = kind, .members = members};
      const bool known = std::ranges::any_of(
          segments, [&](const Segment& one) { return one.kind == kind && one.members == members; });
      if (known || !useful(candidate)) return std::numeric_limits<double>::infinity();
      std::vector<Segment> more = segments;
      more.push_back(candidate);
      const double error = fitted(more);
      const bool larger =
          best && std::popcount(members) > std::popcount(best->first.back().members);
      if (!best || error < best->second * (larger ? kBetter : 1.0)) best = {{more, error}};
      return error;
    };
    const DeviceSet all = (DeviceSet{1} << measured_.devices) - 1;
    for (const SegmentKind kind : {SegmentKind::medium, SegmentKind::uplink, SegmentKind::bridge}) {
      if (measured_.devices <= kAllSets) {
        for (int size = 1; size <= measured_.devices; ++size) {
          for (DeviceSet set = 1; set <= all; ++set) {
            if (std::popcount(set) == size) consider(kind, set);
          }
        }
      } else {
        grow(all, [&](DeviceSet set) { return consider(kind, set); });
      }
    }
    return best;
  }

  // Sets of one, of two, and from the best of these on each with the device more that is best.
  template <class Consider>
  void grow(DeviceSet all, const Consider& consider) const {
    std::multimap<double, DeviceSet> pairs;
    for (int a = 0; a < measured_.devices; ++a) {
      consider(DeviceSet{1} << a);
      for (int b = 0; b < a; ++b) {
        const DeviceSet pair = DeviceSet{1} << a | DeviceSet{1} << b;
        pairs.emplace(consider(pair), pair);
      }
    }
    std::size_t seeds = 0;
    for (const auto& [first, pair] : pairs) {
      if (seeds++ == kSeeds || std::isinf(first)) return;
      for (DeviceSet set = pair; set != all;) {
        std::pair<double, DeviceSet> next{std::numeric_limits<double>::infinity(), 0};
        for (int d = 0; d < measured_.devices; ++d) {
          const DeviceSet larger = set | DeviceSet{1} << d;
          if (larger != set) next = std::min(next, {consider(larger), larger});
        }
        if (std::isinf(next.first)) break;
        set = next.second;
      }
    }
  }

  static bool is_dropped(const Segment& segment) {
    return segment.kind == SegmentKind::port && segment.members == 0;
  }

  // A port of a medium's member that limits nothing beside the medium.
  void drop_idle_ports(std::vector<Segment>& segments, double error) const {
    for (std::size_t d = 0; d < static_cast<std::size_t>(measured_.devices); ++d) {
      const bool covered = std::ranges::any_of(segments, [&](const Segment& one) {
        return one.kind == SegmentKind::medium && (one.members >> d & 1U) != 0;
      });
      if (!covered) continue;
      std::vector<Segment> fewer = segments;
      fewer[d] = {.kind = SegmentKind::port, .members = 0};
      const double without = fitted(fewer);
      if (without > error + kLeastGain / 2.0) continue;
      segments = std::move(fewer);
      error = without;
    }
  }

  void add_paths(std::vector<Segment>& segments) const {
    std::vector<Segment> paths;
    for (const Trial& trial : measured_.trials) {
      if (trial.size() != 1) continue;
      const Flow& flow = trial.front();
      if (fair_rates(segments, trial).front() <= kSlower * flow.rate) continue;
      paths.push_back({.kind = SegmentKind::path,
                       .members = DeviceSet{1} << flow.from,
                       .to = flow.to,
                       .out = flow.rate,
                       .in = 0.0});
    }
    segments.insert(segments.end(), paths.begin(), paths.end());
  }

  const NetworkMeasurements& measured_;
  std::vector<std::vector<double>> rates_;  // of the trials
};

// Non-negative least squares by coordinate descent, and what is left of each pair.
void fit_latencies(const NetworkMeasurements& measured, NetworkSegments& network) {
  const std::size_t pairs = measured.latencies.size();
  const std::size_t count = network.segments.size();
  network.latency.assign(count, 0.0);
  std::vector<std::vector<double>> times(count, std::vector<double>(pairs, 0.0));
  std::vector<double> left(pairs);
  for (std::size_t p = 0; p < pairs; ++p) {
    const PairLatency& pair = measured.latencies[p];
    left[p] = pair.seconds;
    for (std::size_t s = 0; s < count; ++s) {
      if (network.segments[s].kind == SegmentKind::path) continue;
      const Passes of = passes(network.segments[s], pair.a, pair.b);
      times[s][p] = of.out + of.in;
    }
  }
  constexpr int kSweeps = 2000;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double moved = 0.0;
    for (std::size_t s = 0; s < count; ++s) {
      double squares = 0.0;
      double product = 0.0;
      for (std::size_t p = 0; p < pairs; ++p) {
        squares += times[s][p] * times[s][p];
        product += times[s][p] * left[p];
      }
      if (squares == 0.0) continue;
      const double step = std::max(-network.latency[s], product / squares);
      network.latency[s] += step;
      moved = std::max(moved, std::abs(step));
      for (std::size_t p = 0; p < pairs; ++p) left[p] -= step * times[s][p];
    }
    if (moved < 1e-9) break;
  }
  constexpr double kPart = 0.05;
  constexpr double kLeast = 20e-6;
  const auto beyond = [&](std::size_t p) {
    return std::abs(left[p]) > std::max(kLeast, kPart * measured.latencies[p].seconds);
  };
  // A rest below 0 cannot be set apart: then segments have no latency, and pairs have all of it.
  for (std::size_t p = 0; p < pairs; ++p) {
    if (left[p] >= 0.0 || !beyond(p)) continue;
    network.latency.assign(count, 0.0);
    for (std::size_t q = 0; q < pairs; ++q) left[q] = measured.latencies[q].seconds;
    break;
  }
  const auto n = static_cast<std::size_t>(measured.devices);
  network.rest.assign(n * n, 0.0);
  for (std::size_t p = 0; p < pairs; ++p) {
    if (left[p] <= 0.0 || !beyond(p)) continue;
    const auto a = static_cast<std::size_t>(measured.latencies[p].a);
    const auto b = static_cast<std::size_t>(measured.latencies[p].b);
    network.rest[a * n + b] = left[p];
    network.rest[b * n + a] = left[p];
  }
}

}  // namespace

NetworkSegments infer_network(const NetworkMeasurements& measured) {
  const int n = measured.devices;
  require(n >= 2 && n <= kMostNetworkDevices, "infer_network: 2 to 16 devices");
  int alone = 0;
  for (const Trial& trial : measured.trials) {
    require(!trial.empty(), "infer_network: a trial without flows");
    for (const Flow& flow : trial)
      require(flow.rate > 0.0 && flow.from != flow.to, "infer_network: a flow without a rate");
    if (trial.size() == 1) ++alone;
  }
  require(alone == n * (n - 1), "infer_network: every ordered pair is measured alone, once");
  NetworkSegments network;
  network.segments = Inference(measured).segments();
  fit_latencies(measured, network);
  return network;
}

std::vector<Trial> trials_of(int devices) {
  std::vector<Trial> trials;
  std::vector<Trial> both;
  for (int a = 0; a < devices; ++a) {
    for (int b = a + 1; b < devices; ++b) {
      trials.push_back({{.from = a, .to = b}});
      trials.push_back({{.from = b, .to = a}});
      both.push_back({{.from = a, .to = b}, {.from = b, .to = a}});
    }
  }
  if (devices < 2) return trials;
  trials.insert(trials.end(), both.begin(), both.end());
  if (devices == 2) return trials;
  // The circle method: one stays, the others rotate; with an odd number one rests.
  const int seats = devices + devices % 2;
  for (int round = 0; round + 1 < seats; ++round) {
    const auto at = [&](int seat) { return seat == 0 ? 0 : 1 + (seat - 1 + round) % (seats - 1); };
    Trial one;
    Trial other;
    for (int seat = 0; seat < seats / 2; ++seat) {
      const int a = at(seat);
      const int b = at(seats - 1 - seat);
      if (a >= devices || b >= devices) continue;
      one.push_back({.from = a, .to = b});
      other.push_back({.from = b, .to = a});
    }
    // Of one pair nothing new; of more, both directions of each, and crosswise.
    if (one.size() < 2) continue;
    Trial crossed = one;
    crossed.front() = other.front();
    trials.push_back(one);
    trials.push_back(other);
    trials.push_back(crossed);
  }
  for (int d = 0; d < devices; ++d) {
    Trial to;
    Trial from;
    for (int other = 0; other < devices; ++other) {
      if (other == d) continue;
      to.push_back({.from = other, .to = d});
      from.push_back({.from = d, .to = other});
    }
    trials.push_back(to);
    trials.push_back(from);
  }
  return trials;
}

}  // namespace tandem::exec
