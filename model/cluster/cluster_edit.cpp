#include "model/cluster/cluster_edit.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
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

namespace {

// What remains without the devices of `gone` and their edges, but those of `passing`, which become
// routers.
Cluster without(const Cluster& cluster, const std::set<std::string>& gone,
                const std::set<std::string>& passing) {
  std::vector<Device> devices;
  std::vector<std::string> routers = cluster.routers();
  for (const Device& device : cluster.devices()) {
    if (!gone.contains(device.name))
      devices.push_back(device);
    else if (passing.contains(device.name))
      routers.push_back(device.name);
  }
  std::vector<Edge> edges = cluster.edges();
  const auto ends = [&](const std::string& name) {
    return gone.contains(name) && !passing.contains(name);
  };
  std::erase_if(edges, [&](const Edge& edge) { return ends(edge.from) || ends(edge.to); });
  return {cluster.name(), std::move(devices), std::move(routers), cluster.links(),
          std::move(edges)};
}

// The devices among `gone` that have two neighbours or more, through which others may be reached.
std::set<std::string> between_others(const Cluster& cluster, const std::set<std::string>& gone) {
  std::map<std::string, std::set<std::string>> neighbours;
  for (const Edge& edge : cluster.edges()) {
    if (gone.contains(edge.from)) neighbours[edge.from].insert(edge.to);
    if (gone.contains(edge.to)) neighbours[edge.to].insert(edge.from);
  }
  std::set<std::string> between;
  for (const auto& [name, others] : neighbours) {
    if (others.size() > 1) between.insert(name);
  }
  return between;
}

// Whether an edge leads from each of the `count` devices that stay to each other one.
bool is_full_mesh(const Cluster& cluster, const std::set<std::string>& gone, std::size_t count) {
  std::set<std::string> staying;
  for (const Device& device : cluster.devices()) {
    if (!gone.contains(device.name)) staying.insert(device.name);
  }
  std::size_t directed = 0;
  for (const Edge& edge : cluster.edges()) {
    if (staying.contains(edge.from) && staying.contains(edge.to))
      directed += edge.symmetrical ? 2 : 1;
  }
  return directed == count * (count - 1);
}

// Returns the routes of `cluster` that the devices of `fewer` do not have, as edges.
std::vector<Edge> other_routes(const Cluster& cluster, const Cluster& fewer) {
  std::vector<DeviceIndex> was;
  for (const Device& device : fewer.devices()) was.push_back(cluster.find(device.name));
  std::vector<Edge> edges;
  for (DeviceIndex a = 0; a < fewer.size(); ++a) {
    for (DeviceIndex b = 0; b < fewer.size(); ++b) {
      if (a == b) continue;
      const auto at = [&](DeviceIndex d) { return was[static_cast<std::size_t>(d)]; };
      const std::vector<Hop>& hops = cluster.route(at(a), at(b)).hops;
      if (fewer.route(a, b).hops == hops) continue;
      const auto name = [&](DeviceIndex d) {
        return fewer.devices()[static_cast<std::size_t>(d)].name;
      };
      edges.push_back({.from = name(a), .to = name(b), .hops = hops, .symmetrical = false});
    }
  }
  return edges;
}

std::set<std::string> unused(const Cluster& cluster, const std::vector<bool>& used) {
  require(used.size() == cluster.devices().size(), "one flag a device");
  std::set<std::string> names;
  for (std::size_t d = 0; d < used.size(); ++d) {
    if (!used[d]) names.insert(cluster.devices()[d].name);
  }
  return names;
}

}  // namespace

Cluster of_devices(const Cluster& cluster, const std::vector<bool>& used) {
  const std::set<std::string> gone = unused(cluster, used);
  const std::set<std::string> between = between_others(cluster, gone);
  if (between.empty() || is_full_mesh(cluster, gone, used.size() - gone.size()))
    return without(cluster, gone, {});
  try {
    Cluster fewer = without(cluster, gone, {});
    if (other_routes(cluster, fewer).empty()) return fewer;
  } catch (const Error&) {
    // They reach each other only through devices that are not used.
  }
  Cluster kept = without(cluster, gone, between);
  // Of equally short routes another may be the first now.
  std::vector<Edge> others = other_routes(cluster, kept);
  if (others.empty()) return kept;
  std::vector<Edge> edges = kept.edges();
  edges.insert(edges.end(), others.begin(), others.end());
  return {kept.name(), kept.devices(), kept.routers(), kept.links(), std::move(edges)};
}

Cluster without_devices(const Cluster& cluster, const std::vector<bool>& used) {
  return without(cluster, unused(cluster, used), {});
}

Cluster without_device(const Cluster& cluster, const std::string& name) {
  std::vector<bool> used(cluster.devices().size(), true);
  used[static_cast<std::size_t>(cluster.find(name))] = false;
  return without_devices(cluster, used);
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

Direction opposite(Direction direction) {
  if (direction == Direction::none) return direction;
  return direction == Direction::up ? Direction::down : Direction::up;
}

// An edge between netpoints by number: devices in their order, then routers.
struct NumberedEdge {
  std::size_t from = 0;
  std::size_t to = 0;
  const Edge* edge = nullptr;
};

std::vector<NumberedEdge> numbered_edges(const Cluster& cluster) {
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (const Device& device : cluster.devices()) numbers.emplace(device.name, numbers.size());
  for (const std::string& router : cluster.routers()) numbers.emplace(router, numbers.size());
  std::vector<NumberedEdge> edges;
  edges.reserve(cluster.edges().size());
  for (const Edge& edge : cluster.edges())
    edges.push_back({numbers.at(edge.from), numbers.at(edge.to), &edge});
  return edges;
}

// Leaves out the edges of routers that are the end of one edge alone, again and again.
void drop_dead_ends(std::vector<NumberedEdge>& edges, std::size_t devices, std::size_t points) {
  while (true) {
    std::vector<int> ends(points, 0);
    for (const NumberedEdge& edge : edges) {
      ++ends[edge.from];
      ++ends[edge.to];
    }
    const auto is_dead_end = [&](std::size_t point) {
      return point >= devices && ends[point] == 1;
    };
    const auto gone = std::erase_if(edges, [&](const NumberedEdge& edge) {
      return is_dead_end(edge.from) || is_dead_end(edge.to);
    });
    if (gone == 0) return;
  }
}

// Renumbers netpoints by the order in which edges lead to them, after the devices. Returns their
// number without those that no edge leads to.
std::size_t renumber(std::vector<NumberedEdge>& edges, std::size_t devices, std::size_t points) {
  std::vector<std::vector<std::size_t>> neighbours(points);
  for (const NumberedEdge& edge : edges) {
    neighbours[edge.from].push_back(edge.to);
    neighbours[edge.to].push_back(edge.from);
  }
  std::vector<std::size_t> place(points, points);
  std::vector<std::size_t> met;
  const auto meet = [&](std::size_t point) {
    if (place[point] < points) return;
    place[point] = met.size();
    met.push_back(point);
  };
  for (std::size_t d = 0; d < devices; ++d) meet(d);
  for (std::size_t i = 0; i < met.size(); ++i) {
    for (const std::size_t next : neighbours[met[i]]) meet(next);
  }
  for (NumberedEdge& edge : edges) edge = {place[edge.from], place[edge.to], edge.edge};
  return met.size();
}

// Links in the order in which they are met, with names by it. One that is first met downwards has
// its two directions exchanged.
class MetLinks {
 public:
  explicit MetLinks(const Cluster& cluster) : cluster_(&cluster) {}

  [[nodiscard]] Hop met(Hop hop) {
    const auto [at, fresh] =
        kept_.try_emplace(hop.link, static_cast<LinkIndex>(links_.size()), false);
    auto& [link, exchanged] = at->second;
    if (fresh) {
      exchanged = hop.direction == Direction::down;
      links_.push_back(cluster_->links()[static_cast<std::size_t>(hop.link)]);
      Link& made = links_.back();
      made.name = "link" + std::to_string(links_.size() - 1);
      for (LinkChange& change : made.changes) {
        if (exchanged) change.direction = opposite(change.direction);
      }
    }
    return {link, exchanged ? opposite(hop.direction) : hop.direction};
  }
  [[nodiscard]] std::vector<Link> take() && { return std::move(links_); }

 private:
  const Cluster* cluster_;
  std::vector<Link> links_;
  std::map<LinkIndex, std::pair<LinkIndex, bool>> kept_;
};

// Hops of `edge`, backwards if it is `turned`.
std::vector<Hop> hops_of(const Edge& edge, bool turned) {
  std::vector<Hop> hops = edge.hops;
  if (!turned) return hops;
  std::ranges::reverse(hops);
  for (Hop& hop : hops) hop.direction = opposite(hop.direction);
  return hops;
}

}  // namespace

Cluster anonymous(const Cluster& cluster) {
  const std::size_t count = cluster.devices().size();
  const std::size_t points = count + cluster.routers().size();
  std::vector<NumberedEdge> numbered = numbered_edges(cluster);
  drop_dead_ends(numbered, count, points);
  const std::size_t met = renumber(numbered, count, points);
  const auto is_turned = [](const NumberedEdge& edge) {
    return edge.edge->symmetrical && edge.from > edge.to;
  };
  std::ranges::stable_sort(numbered, {}, [&](const NumberedEdge& edge) {
    return is_turned(edge) ? std::pair(edge.to, edge.from) : std::pair(edge.from, edge.to);
  });
  const auto point = [](std::size_t place) { return "point" + std::to_string(place); };
  MetLinks links(cluster);
  std::vector<Edge> edges;
  edges.reserve(numbered.size());
  for (const NumberedEdge& one : numbered) {
    const bool turned = is_turned(one);
    Edge& edge = edges.emplace_back(Edge{.from = point(turned ? one.to : one.from),
                                         .to = point(turned ? one.from : one.to),
                                         .hops = hops_of(*one.edge, turned),
                                         .symmetrical = one.edge->symmetrical});
    for (Hop& hop : edge.hops) hop = links.met(hop);
  }
  std::vector<Device> devices = cluster.devices();
  for (std::size_t d = 0; d < count; ++d) devices[d].name = point(d);
  std::vector<std::string> routers;
  for (std::size_t i = count; i < met; ++i) routers.push_back(point(i));
  return {"", std::move(devices), std::move(routers), std::move(links).take(), std::move(edges)};
}

}  // namespace tandem::model
