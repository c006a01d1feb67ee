#include "sim/network/bottlenecks.hpp"

#include <algorithm>

namespace tandem::sim {

using model::Hop;
using model::Link;
using model::Sharing;

Bottlenecks::Bottlenecks(const model::Cluster& cluster, std::span<const model::Channel> channels)
    : cluster_(&cluster),
      uses_(2 * cluster.links().size()),
      limits_(2 * cluster.links().size(), true) {
  for (std::size_t c = 0; c < channels.size(); ++c) {
    for (const Hop& hop : cluster.route(channels[c].first, channels[c].second).hops) {
      std::vector<Use>& uses = uses_[place_of(hop)];
      if (uses.empty() || uses.back().channel != c) uses.push_back({.channel = c});
      ++uses.back().times;
    }
  }
  // One after the other: what makes a link superfluous stays, or is itself implied by what does.
  for (std::size_t place = 0; place < uses_.size(); ++place) {
    const Link& link = link_at(place);
    if (uses_[place].empty() || link.sharing == Sharing::fatpipe || link.background.value() > 0.0 ||
        !link.changes.empty())
      continue;
    const model::Channel& one = channels[uses_[place].front().channel];
    for (const Hop& hop : cluster.route(one.first, one.second).hops) {
      if (!implied(place, place_of(hop))) continue;
      limits_[place] = false;
      break;
    }
  }
}

std::size_t Bottlenecks::place_of(const Hop& hop) const {
  const auto link = static_cast<std::size_t>(hop.link);
  const bool apart = cluster_->links()[link].sharing == Sharing::split_duplex;
  return 2 * link + (apart && hop.direction == model::Direction::down ? 1 : 0);
}

const Link& Bottlenecks::link_at(std::size_t place) const { return cluster_->links()[place / 2]; }

// Returns whether `by`, which counts, is no faster and carries all that `place` does, as often.
bool Bottlenecks::implied(std::size_t place, std::size_t by) const {
  const Link& other = link_at(by);
  if (by == place || !limits_[by] || other.sharing == Sharing::fatpipe || !other.changes.empty() ||
      other.bandwidth > link_at(place).bandwidth)
    return false;
  const auto less = [](const Use& a, const Use& b) { return a.channel < b.channel; };
  return std::all_of(uses_[place].begin(), uses_[place].end(), [&](const Use& use) {
    const auto at = std::lower_bound(uses_[by].begin(), uses_[by].end(), use, less);
    return at != uses_[by].end() && at->channel == use.channel && at->times >= use.times;
  });
}

}  // namespace tandem::sim
