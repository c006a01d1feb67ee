#pragma once

// Networks that tell levels of sparse attention apart.

#include <string>
#include <vector>

#include "tests/planner/planner_fixture.hpp"

namespace tandem::test {

// Devices d0, d1, .. on routers; device i on router rooms[i], and routers in a row: the n-th cable
// between them takes `seconds[n]`, a device's own `own`.
inline model::Cluster rooms(const std::vector<int>& room, const std::vector<double>& seconds,
                            double own = 1e-4, double rate_Bps = 1e8) {
  const model::Cluster star = star_cluster(std::vector<DeviceSpec>(room.size()));
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  std::vector<std::string> routers;
  const auto link = [&](const std::string& from, const std::string& to, double latency) {
    links.push_back({from + "-" + to, model::Seconds{latency}, model::BytesPerSecond{rate_Bps},
                     model::Sharing::shared});
    edges.push_back({from,
                     to,
                     {{static_cast<model::LinkIndex>(links.size() - 1), model::Direction::none}},
                     true});
  };
  for (std::size_t r = 0; r <= seconds.size(); ++r) routers.push_back("r" + std::to_string(r));
  for (std::size_t d = 0; d < room.size(); ++d)
    link(star.devices()[d].name, routers[static_cast<std::size_t>(room[d])], own);
  for (std::size_t r = 0; r < seconds.size(); ++r) link(routers[r], routers[r + 1], seconds[r]);
  return {"rooms", star.devices(), routers, links, edges};
}

}  // namespace tandem::test
