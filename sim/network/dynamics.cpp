#include "sim/network/dynamics.hpp"

#include <algorithm>
#include <cmath>

#include "sim/network/positional_random.hpp"

namespace tandem::sim {
namespace {

constexpr double kSegmentBytes = 1448.0;  // Ethernet's 1500 less IP, TCP and time stamps
constexpr double kLeastTimeoutSeconds = 0.2;
constexpr int kMostLosses = 15;  // Linux gives the connection up then (tcp_retries2)

}  // namespace

double end_of_work(const std::vector<model::SpeedChange>& changes, double start, double duration) {
  auto next = std::upper_bound(
      changes.begin(), changes.end(), start,
      [](double time, const model::SpeedChange& change) { return time < change.at.value(); });
  double factor = next == changes.begin() ? 1.0 : std::prev(next)->factor;
  double now = start;
  double left = duration;
  for (; next != changes.end(); ++next) {
    const double until = next->at.value();
    if (now + left / factor <= until) break;
    left -= (until - now) * factor;
    now = until;
    factor = next->factor;
  }
  return now + left / factor;
}

double latency_at(const model::Cluster& cluster, const model::Route& route, double time) {
  double latency_s = 0.0;
  for (const model::Hop& hop : route.hops) {
    const model::Link& link = cluster.links()[static_cast<std::size_t>(hop.link)];
    double now_s = link.latency.value();
    for (const model::LinkChange& change : link.changes) {
      if (change.at.value() > time) break;
      if (change.direction == hop.direction && change.latency) now_s = change.latency->value();
    }
    latency_s += now_s;
  }
  return latency_s;
}

double extra_delay(const model::Cluster& cluster, model::DeviceIndex from, model::DeviceIndex to,
                   double bytes, std::uint64_t seed, std::uint64_t index) {
  const model::Route& route = cluster.route(from, to);
  const std::uint64_t channel =
      (static_cast<std::uint64_t>(from) << 32U) | static_cast<std::uint64_t>(to);
  const std::uint64_t stream = scattered(scattered(channel) ^ index);
  std::uint64_t draws = 0;
  const auto draw = [&] { return uniform(seed, stream, draws++); };
  double delay_s = 0.0;
  double arrives = 1.0;  // probability of a segment
  for (const model::Hop& hop : route.hops) {
    const model::Link& link = cluster.links()[static_cast<std::size_t>(hop.link)];
    if (link.jitter.value() > 0.0) delay_s -= link.jitter.value() * std::log1p(-draw());
    arrives *= 1.0 - link.loss;
  }
  if (arrives == 1.0) return delay_s;
  const double segments = std::max(1.0, std::ceil(bytes / kSegmentBytes));
  double timeout_s = kLeastTimeoutSeconds + 2.0 * route.latency.value();
  double lost = 1.0 - std::pow(arrives, segments);
  for (int losses = 0; losses < kMostLosses && draw() < lost; ++losses) {
    delay_s += timeout_s;
    timeout_s *= 2.0;
    lost = 1.0 - arrives;
  }
  return delay_s;
}

}  // namespace tandem::sim
