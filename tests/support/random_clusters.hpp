#pragma once

// Random clusters and what may get better about them, for the tests of monotony.

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/search/search.hpp"

namespace tandem::test {

enum class Improvement { speed, memory_bandwidth, memory, disk, latency, bandwidth };
inline constexpr std::array kImprovements{Improvement::speed,   Improvement::memory_bandwidth,
                                          Improvement::memory,  Improvement::disk,
                                          Improvement::latency, Improvement::bandwidth};

class RandomClusters {
 public:
  explicit RandomClusters(std::uint32_t seed) : random_(seed) {}

  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  // Log-uniform.
  double number(double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random_));
  }

  // Access links to one router, homes with a router each, or a link between any two devices.
  model::Cluster cluster(int devices, double least_memory, double most_memory) {
    std::vector<model::Device> made;
    for (int d = 0; d < devices; ++d) {
      const double flops = number(1e8, 1e11);
      made.push_back({.name = "d" + std::to_string(d),
                      .cores = 1,
                      .flop_rate = model::FlopsPerSecond{flops},
                      .memory_bandwidth = model::BytesPerSecond{flops * number(0.1, 2.0)},
                      .memory = model::Bytes{number(least_memory, most_memory)},
                      .disk_bandwidth = model::BytesPerSecond{number(1e6, 1e9)}});
    }
    const std::int64_t form = integer(0, 2);
    const int homes = form == 1 ? static_cast<int>(integer(2, 3)) : 1;
    std::vector<std::string> routers;
    std::vector<model::Link> links;
    std::vector<model::Edge> edges;
    const auto connect = [&](const std::string& from, const std::string& to, double low) {
      edges.push_back(
          {.from = from,
           .to = to,
           .hops = {{static_cast<model::LinkIndex>(links.size()), model::Direction::up}}});
      links.push_back({.name = from + "-" + to,
                       .latency = model::Seconds{number(low, 30 * low)},
                       .bandwidth = model::BytesPerSecond{number(1e6, 1e9)}});
    };
    if (form == 2) {
      for (int a = 0; a < devices; ++a) {
        for (int b = a + 1; b < devices; ++b)
          connect("d" + std::to_string(a), "d" + std::to_string(b), 1e-4);
      }
      return {"mesh", made, routers, links, edges};
    }
    routers.emplace_back("core");
    for (int home = 0; home < homes && homes > 1; ++home) {
      routers.push_back("home" + std::to_string(home));
      connect(routers.back(), "core", 5e-4);
    }
    for (int d = 0; d < devices; ++d)
      connect("d" + std::to_string(d), homes == 1 ? "core" : "home" + std::to_string(d % homes),
              1e-4);
    return {"random", made, routers, links, edges};
  }

  // One device or link of `cluster`, better by a factor of 1.05 to 20.
  model::Cluster improved(const model::Cluster& cluster, Improvement improvement) {
    std::vector<model::Device> devices = cluster.devices();
    std::vector<model::Link> links = cluster.links();
    const double factor = number(1.05, 20.0);
    model::Device& device = devices[static_cast<std::size_t>(integer(0, cluster.size() - 1))];
    model::Link& link =
        links[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(links.size()) - 1))];
    switch (improvement) {
      case Improvement::speed:
        device.flop_rate = model::FlopsPerSecond{factor * device.flop_rate.value()};
        break;
      case Improvement::memory_bandwidth:
        device.memory_bandwidth = model::BytesPerSecond{factor * device.memory_bandwidth.value()};
        break;
      case Improvement::memory:
        device.memory = model::Bytes{factor * device.memory.value()};
        break;
      case Improvement::disk:
        device.disk_bandwidth = model::BytesPerSecond{factor * device.disk_bandwidth.value()};
        break;
      case Improvement::latency:
        link.latency = model::Seconds{link.latency.value() / factor};
        break;
      case Improvement::bandwidth:
        link.bandwidth = model::BytesPerSecond{factor * link.bandwidth.value()};
        break;
    }
    return {cluster.name(), devices, cluster.routers(), links, cluster.edges()};
  }

 private:
  std::mt19937 random_;
};

}  // namespace tandem::test
