#include "model/cluster_edit.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tandem::model {

Cluster with_devices(const Cluster& cluster, const std::function<void(Device&)>& change) {
  std::vector<Device> devices = cluster.devices();
  for (Device& device : devices) change(device);
  return {cluster.name(), std::move(devices), cluster.routers(), cluster.links(), cluster.edges()};
}

Cluster with_links(const Cluster& cluster, const std::function<void(Link&)>& change) {
  std::vector<Link> links = cluster.links();
  for (Link& link : links) change(link);
  return {cluster.name(), cluster.devices(), cluster.routers(), std::move(links), cluster.edges()};
}

Cluster first_devices(const Cluster& cluster, std::size_t count) {
  std::vector<Device> devices = cluster.devices();
  std::vector<Edge> edges = cluster.edges();
  for (; devices.size() > count; devices.pop_back()) {
    const std::string gone = devices.back().name;
    std::erase_if(edges, [&](const Edge& edge) { return edge.from == gone || edge.to == gone; });
  }
  return {cluster.name(), std::move(devices), cluster.routers(), cluster.links(), std::move(edges)};
}

}  // namespace tandem::model
