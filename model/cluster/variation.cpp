#include "model/cluster/variation.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::model {

bool varies_by_chance(const Cluster& cluster) {
  return std::ranges::any_of(cluster.links(), [](const Link& link) {
    return link.jitter.value() > 0.0 || link.loss > 0.0;
  });
}

void check_analytic(const Cluster& cluster) {
  const std::string varies = variation(cluster);
  if (varies.empty()) return;
  throw Error(varies +
              ", expected none with the analytic evaluator, which knows of none; take "
              "'--evaluator simgrid'");
}

Cluster without_variation(const Cluster& cluster) {
  if (variation(cluster).empty()) return cluster;
  std::vector<Device> devices = cluster.devices();
  for (Device& device : devices) device.speeds.clear();
  std::vector<Link> links = cluster.links();
  for (Link& link : links) {
    link.jitter = {};
    link.loss = 0.0;
    link.background = {};
    link.changes.clear();
  }
  return {cluster.name(), std::move(devices), cluster.routers(), std::move(links), cluster.edges()};
}

}  // namespace tandem::model
