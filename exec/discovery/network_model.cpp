#include "exec/discovery/network_model.hpp"

#include <algorithm>
#include <limits>

namespace tandem::exec {

Passes passes(const Segment& segment, int from, int to) {
  const bool leaves = (segment.members >> from & 1U) != 0;
  const bool enters = (segment.members >> to & 1U) != 0;
  switch (segment.kind) {
    case SegmentKind::port:
      return {.out = leaves ? 1 : 0, .in = enters ? 1 : 0};
    case SegmentKind::medium:
      return {.out = (leaves ? 1 : 0) + (enters ? 1 : 0), .in = 0};
    case SegmentKind::uplink:
      return {.out = leaves && !enters ? 1 : 0, .in = enters && !leaves ? 1 : 0};
    case SegmentKind::bridge:
      return {.out = leaves != enters ? 1 : 0, .in = 0};
    case SegmentKind::path:
      return {.out = leaves && to == segment.to ? 1 : 0, .in = 0};
  }
  return {};
}

namespace {

struct Capacity {
  double left = 0.0;
  std::vector<int> weight{};  // passes of each flow
};

std::vector<Capacity> capacities(const std::vector<Segment>& segments, const Trial& trial) {
  std::vector<Capacity> found;
  for (const Segment& segment : segments) {
    Capacity out{.left = segment.out, .weight = {}};
    Capacity in{.left = segment.in, .weight = {}};
    for (const Flow& flow : trial) {
      const Passes of = passes(segment, flow.from, flow.to);
      out.weight.push_back(of.out);
      in.weight.push_back(of.in);
    }
    for (Capacity* const one : {&out, &in}) {
      if (std::ranges::any_of(one->weight, [](int weight) { return weight > 0; }))
        found.push_back(std::move(*one));
    }
  }
  return found;
}

}  // namespace

// Progressive filling: the capacity that gives its flows the least fixes their rates, then the
// next. Bertsekas and Gallager, Data Networks, 6.5.2
std::vector<double> fair_rates(const std::vector<Segment>& segments, const Trial& trial) {
  std::vector<Capacity> left = capacities(segments, trial);
  std::vector<double> rates(trial.size(), std::numeric_limits<double>::infinity());
  std::vector<bool> fixed(trial.size(), false);
  while (true) {
    const Capacity* narrowest = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Capacity& capacity : left) {
      int weight = 0;
      for (std::size_t f = 0; f < trial.size(); ++f) weight += fixed[f] ? 0 : capacity.weight[f];
      if (weight == 0) continue;
      const double share = std::max(0.0, capacity.left) / weight;
      if (share >= least) continue;
      least = share;
      narrowest = &capacity;
    }
    if (narrowest == nullptr) return rates;
    const std::vector<int> weight = narrowest->weight;
    for (std::size_t f = 0; f < trial.size(); ++f) {
      if (fixed[f] || weight[f] == 0) continue;
      fixed[f] = true;
      rates[f] = least;
      for (Capacity& capacity : left) capacity.left -= least * capacity.weight[f];
    }
  }
}

}  // namespace tandem::exec
