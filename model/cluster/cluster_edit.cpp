#include "model/cluster/cluster_edit.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"

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
  std::vector<bool> used(cluster.devices().size(), false);
  std::fill_n(used.begin(), std::min(count, used.size()), true);
  return of_devices(cluster, used);
}

Cluster of_devices(const Cluster& cluster, const std::vector<bool>& used) {
  require(used.size() == cluster.devices().size(), "of_devices: one flag a device");
  std::vector<Device> devices;
  std::set<std::string> gone;
  for (std::size_t d = 0; d < used.size(); ++d) {
    const Device& device = cluster.devices()[d];
    if (used[d]) {
      devices.push_back(device);
    } else {
      gone.insert(device.name);
    }
  }
  std::vector<Edge> edges = cluster.edges();
  std::erase_if(
      edges, [&](const Edge& edge) { return gone.contains(edge.from) || gone.contains(edge.to); });
  return {cluster.name(), std::move(devices), cluster.routers(), cluster.links(), std::move(edges)};
}

Cluster without_device(const Cluster& cluster, const std::string& name) {
  std::vector<bool> used(cluster.devices().size(), true);
  used[static_cast<std::size_t>(cluster.find(name))] = false;
  return of_devices(cluster, used);
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

Cluster with_exchanged(const Cluster& cluster, DeviceIndex a, DeviceIndex b) {
  std::vector<Device> devices = cluster.devices();
  std::swap(devices[static_cast<std::size_t>(a)], devices[static_cast<std::size_t>(b)]);
  return {cluster.name(), std::move(devices), cluster.routers(), cluster.links(), cluster.edges()};
}

namespace {

// Without those of routers that are the end of one edge alone, again and again.
std::vector<Edge> useful_edges(const Cluster& cluster) {
  std::vector<Edge> edges = cluster.edges();
  const std::set<std::string> routers(cluster.routers().begin(), cluster.routers().end());
  while (true) {
    std::map<std::string, int> ends;
    for (const Edge& edge : edges) {
      ++ends[edge.from];
      ++ends[edge.to];
    }
    const auto is_dead_end = [&](const std::string& point) {
      return ends[point] == 1 && routers.contains(point);
    };
    const auto gone = std::erase_if(
        edges, [&](const Edge& edge) { return is_dead_end(edge.from) || is_dead_end(edge.to); });
    if (gone == 0) return edges;
  }
}

// Netpoints by their new names' order: the devices, then what their edges lead to.
std::map<std::string, std::size_t> places(const Cluster& cluster, const std::vector<Edge>& edges) {
  std::multimap<std::string, const Edge*> edges_of;
  for (const Edge& edge : edges) {
    edges_of.emplace(edge.from, &edge);
    edges_of.emplace(edge.to, &edge);
  }
  std::map<std::string, std::size_t> place;
  std::vector<std::string> met;
  const auto meet = [&](const std::string& point) {
    if (place.try_emplace(point, place.size()).second) met.push_back(point);
  };
  for (const Device& device : cluster.devices()) meet(device.name);
  for (std::size_t i = 0; i < met.size(); ++i) {
    const std::string from = met[i];
    const auto [begin, end] = edges_of.equal_range(from);
    for (auto at = begin; at != end; ++at)
      meet(at->second->from == from ? at->second->to : at->second->from);
  }
  return place;
}

}  // namespace

Cluster anonymous(const Cluster& cluster) {
  std::vector<Edge> edges = useful_edges(cluster);
  const std::map<std::string, std::size_t> place = places(cluster, edges);
  std::ranges::stable_sort(edges, {}, [&](const Edge& edge) {
    return std::pair(place.at(edge.from), place.at(edge.to));
  });
  const auto name = [](const char* kind, std::size_t number) {
    return kind + std::to_string(number);
  };
  const auto point = [&](const std::string& old) { return name("point", place.at(old)); };
  std::vector<Link> links;
  std::map<LinkIndex, LinkIndex> kept;
  for (Edge& edge : edges) {
    edge.from = point(edge.from);
    edge.to = point(edge.to);
    for (Hop& hop : edge.hops) {
      const auto [at, fresh] = kept.try_emplace(hop.link, static_cast<LinkIndex>(links.size()));
      if (fresh) {
        links.push_back(cluster.links()[static_cast<std::size_t>(hop.link)]);
        links.back().name = name("link", links.size() - 1);
      }
      hop.link = at->second;
    }
  }
  std::vector<Device> devices = cluster.devices();
  for (Device& device : devices) device.name = point(device.name);
  std::vector<std::string> routers;
  for (std::size_t i = devices.size(); i < place.size(); ++i) routers.push_back(name("point", i));
  return {"", std::move(devices), std::move(routers), std::move(links), std::move(edges)};
}

}  // namespace tandem::model
