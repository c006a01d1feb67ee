#include "model/cluster_edit.hpp"

#include <map>
#include <set>
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

Cluster without_device(const Cluster& cluster, const std::string& name) {
  std::vector<Device> devices = cluster.devices();
  devices.erase(devices.begin() + cluster.find(name));
  std::vector<Edge> edges = cluster.edges();
  std::erase_if(edges, [&](const Edge& edge) { return edge.from == name || edge.to == name; });
  return {cluster.name(), std::move(devices), cluster.routers(), cluster.links(), std::move(edges)};
}

Cluster with_copy(const Cluster& cluster, const std::string& name) {
  std::set<std::string> taken(cluster.routers().begin(), cluster.routers().end());
  for (const Device& device : cluster.devices()) taken.insert(device.name);
  for (const Link& link : cluster.links()) taken.insert(link.name);
  const auto copied = [&](const std::string& original) {
    for (int number = 2;; ++number) {
      std::string made = original + "-" + std::to_string(number);
      if (taken.insert(made).second) return made;
    }
  };
  std::vector<Device> devices = cluster.devices();
  Device copy = devices[static_cast<std::size_t>(cluster.find(name))];
  copy.name = copied(name);
  const auto touches = [&](const Edge& edge) { return edge.from == name || edge.to == name; };
  std::vector<bool> own(cluster.links().size(), true);  // that no other device uses
  for (const Edge& edge : cluster.edges()) {
    for (const Hop& hop : edge.hops) {
      if (!touches(edge)) own[static_cast<std::size_t>(hop.link)] = false;
    }
  }
  std::vector<Link> links = cluster.links();
  std::map<LinkIndex, LinkIndex> doubled;
  std::vector<Edge> edges = cluster.edges();
  for (const Edge& edge : cluster.edges()) {
    if (!touches(edge)) continue;
    Edge other = edge;
    (other.from == name ? other.from : other.to) = copy.name;
    for (Hop& hop : other.hops) {
      const Link& link = cluster.links()[static_cast<std::size_t>(hop.link)];
      if (!own[static_cast<std::size_t>(hop.link)] || link.sharing == Sharing::shared) continue;
      const auto [at, fresh] = doubled.try_emplace(hop.link, static_cast<LinkIndex>(links.size()));
      if (fresh) {
        links.push_back(link);
        links.back().name = copied(link.name);
      }
      hop.link = at->second;
    }
    edges.push_back(std::move(other));
  }
  devices.push_back(std::move(copy));
  return {cluster.name(), std::move(devices), cluster.routers(), std::move(links),
          std::move(edges)};
}

}  // namespace tandem::model
