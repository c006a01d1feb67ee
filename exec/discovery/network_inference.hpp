#pragma once

// Which segments of a network several devices share, from rates measured alone and at once.

#include <vector>

#include "exec/discovery/network_model.hpp"

namespace tandem::exec {

// Half a round trip between two devices, seconds, without what their profiles charge.
struct PairLatency {
  int a = 0;
  int b = 0;
  double seconds = 0.0;
};

struct NetworkMeasurements {
  int devices = 0;  // at most kMostNetworkDevices
  // Every ordered pair alone; both directions of each pair; the pairs of every round of a
  // round-robin tournament; all to one; one to all.
  std::vector<Trial> trials{};
  std::vector<PairLatency> latencies{};  // of every pair
};

struct NetworkSegments {
  // A port of each device, by device; then what is shared, in the order in which it was found; then
  // paths. Ports that a medium makes redundant have no rate (0) and are on no route.
  std::vector<Segment> segments{};
  std::vector<double> latency{};  // seconds of one pass, by segment
  // What latencies of segments do not explain, by a * devices + b, the same for b and a; seconds.
  std::vector<double> rest{};
};

// Returns the segments that explain the measurements with the fewest assumptions:
//   1. Every device has a port with a rate out and a rate in.
//   2. Rates: a segment that a trial saturates, by max-min fair sharing over the segments so far,
//      carries its rate; the median over such trials. Before that, the greatest load of any trial.
//   3. Error of a set of segments: over trials, (flows) * ln(sum predicted / sum measured)^2 + 0.15
//   *
//      sum of ln(predicted / measured)^2 of its flows. Sums count more, as TCP shares by other
//      rules than max-min.
//   4. Of all single additions (a medium, an uplink or a bridge of any set of devices; beyond 5
//      devices sets grown from pairs) the one with the least error is kept if it lowers the error
//      by more than noise of 5% explains. Repeated until none is.
//   5. A pair that is still slower alone than predicted by more than 20% gets a path of its own.
// Latencies: the least squares of segments' latencies, none below 0, over the pairs' routes; the
// rest of a pair is set apart where it exceeds 5% and 20 microseconds.
// Throws logic_error unless there are 2 devices or more and every ordered pair has been alone.
[[nodiscard]] NetworkSegments infer_network(const NetworkMeasurements& measured);

// The trials that infer_network() wants of `devices`, without rates. Pairs one by one first.
[[nodiscard]] std::vector<Trial> trials_of(int devices);

}  // namespace tandem::exec
