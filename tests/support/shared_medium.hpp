#pragma once

// What every discipline on a shared medium is held against: max-min shares.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "model/cluster/cluster.hpp"

namespace tandem::test {

struct MediumFlow {
  model::DeviceIndex from = 0;
  model::DeviceIndex to = 1;
  std::size_t bytes = 0;
  double passes = 1.0;  // of the medium
};

// When each of `flows`, that begin at once on a medium of `bandwidth` bytes a second, has ended:
// all that are left have the same rate r, and the medium carries the sum of passes * r.
inline std::vector<double> max_min_ends(const std::vector<MediumFlow>& flows, double bandwidth) {
  std::vector<double> ends(flows.size());
  std::vector<std::size_t> order(flows.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return flows[a].bytes < flows[b].bytes; });
  double passes = 0.0;
  for (const MediumFlow& flow : flows) passes += flow.passes;
  double now = 0.0;
  double sent = 0.0;  // of each flow that is left
  for (const std::size_t i : order) {
    const auto bytes = static_cast<double>(flows[i].bytes);
    now += (bytes - sent) * passes / bandwidth;
    sent = bytes;
    passes -= flows[i].passes;
    ends[i] = now;
  }
  return ends;
}

// Three stations, and a device on a port of the access point that is no bottleneck.
inline model::Cluster medium_of(double bandwidth_Bps) {
  const auto device = [](const char* name) {
    return model::Device{.name = name,
                         .flop_rate = model::FlopsPerSecond{1e9},
                         .memory_bandwidth = model::BytesPerSecond{1e9},
                         .memory = model::Bytes{1e9}};
  };
  return {"medium",
          {device("a"), device("b"), device("c"), device("wired")},
          {"point"},
          {{.name = "air",
            .bandwidth = model::BytesPerSecond{bandwidth_Bps},
            .sharing = model::Sharing::shared},
           {.name = "port",
            .bandwidth = model::BytesPerSecond{50.0 * bandwidth_Bps},
            .sharing = model::Sharing::split_duplex}},
          {{"a", "point", {{0, model::Direction::none}}, true},
           {"b", "point", {{0, model::Direction::none}}, true},
           {"c", "point", {{0, model::Direction::none}}, true},
           {"wired", "point", {{1, model::Direction::up}}, true}}};
}

// Several senders at once, unequal sizes, both directions, one and two passes.
inline std::vector<MediumFlow> medium_flows() {
  return {{0, 1, 600'000, 2.0}, {1, 0, 300'000, 2.0}, {2, 3, 900'000, 1.0},
          {3, 2, 450'000, 1.0}, {0, 3, 750'000, 1.0}, {1, 2, 40'000, 2.0}};
}

}  // namespace tandem::test
