#include "cli/cluster_edit.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tandem::cli {

using model::Cluster;

Cluster with_devices(const Cluster& cluster, const std::function<void(model::Device&)>& change) {
  std::vector<model::Device> devices = cluster.devices();
  for (model::Device& device : devices) change(device);
  return {cluster.name(), std::move(devices), cluster.routers(), cluster.links(), cluster.edges()};
}

Cluster with_links(const Cluster& cluster, const std::function<void(model::Link&)>& change) {
  std::vector<model::Link> links = cluster.links();
  for (model::Link& link : links) change(link);
  return {cluster.name(), cluster.devices(), cluster.routers(), std::move(links), cluster.edges()};
}

Cluster first_devices(const Cluster& cluster, std::size_t count) {
  std::vector<model::Device> devices = cluster.devices();
  std::vector<model::Edge> edges = cluster.edges();
  for (; devices.size() > count; devices.pop_back()) {
    const std::string gone = devices.back().name;
    std::erase_if(edges,
                  [&](const model::Edge& edge) { return edge.from == gone || edge.to == gone; });
  }
  return {cluster.name(), std::move(devices), cluster.routers(), cluster.links(), std::move(edges)};
}

}  // namespace tandem::cli
