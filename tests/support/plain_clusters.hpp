#pragma once

// Clusters of equal, fast devices, on which only links take time.

#include <cstddef>
#include <string>
#include <vector>

#include "model/cluster/cluster.hpp"

namespace tandem::test {

inline model::Device plain_device(int index) {
  return {.name = "d" + std::to_string(index),
          .cores = 1,
          .flop_rate = model::FlopsPerSecond{1e18},
          .memory_bandwidth = model::BytesPerSecond{1e18},
          .memory = model::Bytes{1e12}};
}

// A split-duplex link of its own between every two devices: nothing contends.
inline model::Cluster mesh_of(int count, double latency_s, double bandwidth_Bps) {
  std::vector<model::Device> devices;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  for (int i = 0; i < count; ++i) devices.push_back(plain_device(i));
  for (int a = 0; a < count; ++a) {
    for (int b = a + 1; b < count; ++b) {
      edges.push_back({devices[static_cast<std::size_t>(a)].name,
                       devices[static_cast<std::size_t>(b)].name,
                       {{static_cast<model::LinkIndex>(links.size()), model::Direction::up}},
                       true});
      links.push_back({std::to_string(a) + "-" + std::to_string(b), model::Seconds{latency_s},
                       model::BytesPerSecond{bandwidth_Bps}, model::Sharing::split_duplex});
    }
  }
  return {"mesh", devices, {}, links, edges};
}

// Devices on split-duplex access links to one router; half the latency each.
inline model::Cluster access_of(int count, double latency_s, double bandwidth_Bps) {
  std::vector<model::Device> devices;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  for (int i = 0; i < count; ++i) {
    devices.push_back(plain_device(i));
    edges.push_back({devices.back().name, "router", {{i, model::Direction::up}}, true});
    links.push_back({"l" + std::to_string(i), model::Seconds{latency_s / 2.0},
                     model::BytesPerSecond{bandwidth_Bps}, model::Sharing::split_duplex});
  }
  return {"access", devices, {"router"}, links, edges};
}

// `homes` gateways around one core, each with `members` devices whose links are `near_s` long; the
// gateways' are `far_s`.
inline model::Cluster homes_of(int homes, int members, double near_s, double far_s,
                               double bandwidth_Bps) {
  std::vector<model::Device> devices;
  std::vector<std::string> routers{"core"};
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  const auto add = [&](const std::string& from, const std::string& to, double latency_s) {
    edges.push_back({from, to, {{static_cast<int>(links.size()), model::Direction::up}}, true});
    links.push_back({from + "-" + to, model::Seconds{latency_s},
                     model::BytesPerSecond{bandwidth_Bps}, model::Sharing::split_duplex});
  };
  for (int home = 0; home < homes; ++home) {
    routers.push_back("home" + std::to_string(home));
    add(routers.back(), "core", far_s);
  }
  // Devices of one home are not neighbours by index.
  for (int member = 0; member < members; ++member) {
    for (int home = 0; home < homes; ++home) {
      devices.push_back(plain_device(member * homes + home));
      add(devices.back().name, "home" + std::to_string(home), near_s);
    }
  }
  return {"homes", devices, routers, links, edges};
}

// Two homes if `count` is even.
inline model::Cluster some_homes(int count) {
  const int homes = count % 2 == 0 ? 2 : 1;
  return homes_of(homes, count / homes, 1e-3, 5e-3, 1e6);
}

}  // namespace tandem::test
