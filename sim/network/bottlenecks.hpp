#pragma once

// The links that can limit the flows of a run. Private to sim/.

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/predict/analytic.hpp"

namespace tandem::sim {

// Max-min shares depend on the links' joint constraints, so a redundant link can be left out: one
// that carries, of all channels of a run, only such as also pass a link that is no faster. Every
// link is a constraint in each of the engine's solutions, and behind a switch most are redundant.
class Bottlenecks {
 public:
  Bottlenecks(const model::Cluster& cluster, std::span<const model::Channel> channels);
  // Returns whether a flow over `hop` must include it. Links with other users or varying bandwidth
  // always count.
  [[nodiscard]] bool limits(const model::Hop& hop) const { return limits_[place_of(hop)]; }

 private:
  struct Use {
    std::size_t channel = 0;
    int times = 0;  // passes of its route
    bool operator==(const Use&) const = default;
  };

  [[nodiscard]] std::size_t place_of(const model::Hop& hop) const;
  [[nodiscard]] const model::Link& link_at(std::size_t place) const;
  [[nodiscard]] bool implied(std::size_t place, std::size_t by) const;

  const model::Cluster* cluster_;
  std::vector<std::vector<Use>> uses_;  // by place, ascending; separate directions are places
  std::vector<bool> limits_;            // by place
};

}  // namespace tandem::sim
