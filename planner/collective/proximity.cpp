#include "planner/collective/proximity.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/kruskal_min_spanning_tree.hpp>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::planner {
namespace {

constexpr double kApart = 2.0;        // latencies of such a ratio tell near from far
constexpr double kDiffer = 1.01;      // and of such a one tell levels apart
constexpr double kNoLatencyS = 1e-9;  // less is as good as none
constexpr std::size_t kMostCuts = 4;
constexpr std::int32_t kMostPairs = 64;  // devices between all of which routes are looked at
constexpr std::size_t kNoRouter = std::numeric_limits<std::size_t>::max();

// A netpoint is a device or a router, numbered in this order.
struct Wire {
  double latency_s = 0.0;
  std::size_t a = 0;  // a <= b
  std::size_t b = 0;
  auto operator<=>(const Wire&) const = default;
};

std::vector<Wire> sorted_wires(const model::Cluster& cluster) {
  std::unordered_map<std::string_view, std::size_t> names;
  for (const model::Device& device : cluster.devices()) names.emplace(device.name, names.size());
  for (const std::string& router : cluster.routers()) names.emplace(router, names.size());
  std::vector<Wire> wires;
  for (const model::Edge& edge : cluster.edges()) {
    Wire& wire = wires.emplace_back();
    std::tie(wire.a, wire.b) = std::minmax({names.at(edge.from), names.at(edge.to)});
    for (const model::Hop& hop : edge.hops)
      wire.latency_s += cluster.links()[static_cast<std::size_t>(hop.link)].latency.value();
  }
  std::sort(wires.begin(), wires.end());
  return wires;
}

// The tree's wires at each netpoint, shortest first. Weights are positions in the sorted list, all
// different: the tree is unique, whatever the algorithm does with ties.
class SpanningTree {
 public:
  SpanningTree(const model::Cluster& cluster, std::vector<Wire> wires)
      : devices_(cluster.devices().size()),
        wires_(std::move(wires)),
        at_(devices_ + cluster.routers().size()) {
    using Graph =
        boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property,
                              boost::property<boost::edge_weight_t, std::size_t>>;
    Graph graph(at_.size());
    for (std::size_t w = 0; w < wires_.size(); ++w)
      boost::add_edge(wires_[w].a, wires_[w].b, w, graph);
    std::vector<Graph::edge_descriptor> chosen;
    boost::kruskal_minimum_spanning_tree(graph, std::back_inserter(chosen));
    std::vector<std::size_t> weights;
    weights.reserve(chosen.size());
    for (const auto& edge : chosen) weights.push_back(boost::get(boost::edge_weight, graph, edge));
    std::sort(weights.begin(), weights.end());
    for (const std::size_t w : weights) {
      at_[wires_[w].a].push_back(w);
      at_[wires_[w].b].push_back(w);
    }
    prune();
  }

  // Devices in the order of a walk from `start` that leaves out wires longer than `longest_s`.
  [[nodiscard]] std::vector<model::DeviceIndex> walk(std::size_t start, double longest_s,
                                                     std::vector<bool>& seen) const {
    std::vector<model::DeviceIndex> devices;
    std::vector<std::size_t> stack{start};
    seen[start] = true;
    while (!stack.empty()) {
      const std::size_t here = stack.back();
      stack.pop_back();
      if (here < devices_) devices.push_back(static_cast<model::DeviceIndex>(here));
      for (auto w = at_[here].rbegin(); w != at_[here].rend(); ++w) {
        const std::size_t next = other(*w, here);
        if (seen[next] || wires_[*w].latency_s > longest_s) continue;
        seen[next] = true;
        stack.push_back(next);
      }
    }
    return devices;
  }

  // Returns where to split the groups: the longest edges within one, those before the largest
  // ratios first.
  [[nodiscard]] std::vector<double> near_s(double apart = kApart) const {
    std::vector<double> latencies;
    for (std::size_t here = 0; here < at_.size(); ++here) {
      for (const std::size_t w : at_[here]) {
        if (wires_[w].a == here) latencies.push_back(wires_[w].latency_s);
      }
    }
    std::sort(latencies.begin(), latencies.end());
    std::vector<std::pair<double, double>> cuts;  // (ratio, negative for sorting; longest within)
    for (std::size_t i = 1; i < latencies.size(); ++i) {
      const double ratio =
          std::max(latencies[i], kNoLatencyS) / std::max(latencies[i - 1], kNoLatencyS);
      if (ratio >= apart) cuts.emplace_back(-ratio, latencies[i - 1]);
    }
    std::stable_sort(cuts.begin(), cuts.end());
    std::vector<double> longest;
    longest.reserve(cuts.size() + 1);
    for (const auto& [unused_ratio, near] : cuts) longest.push_back(near);
    if (longest.empty()) longest.push_back(latencies.empty() ? 0.0 : latencies.back());
    return longest;
  }

  [[nodiscard]] std::size_t netpoints() const { return at_.size(); }

 private:
  [[nodiscard]] std::size_t other(std::size_t w, std::size_t here) const {
    return wires_[w].a == here ? wires_[w].b : wires_[w].a;
  }

  // Routers at the tree's ends lead to no device: their wires do not matter.
  void prune() {
    std::vector<std::size_t> ends;
    for (std::size_t i = devices_; i < at_.size(); ++i) {
      if (at_[i].size() == 1) ends.push_back(i);
    }
    while (!ends.empty()) {
      const std::size_t end = ends.back();
      ends.pop_back();
      if (at_[end].size() != 1) continue;
      const std::size_t w = at_[end].front();
      const std::size_t inner = other(w, end);
      at_[end].clear();
      at_[inner].erase(std::find(at_[inner].begin(), at_[inner].end(), w));
      if (inner >= devices_ && at_[inner].size() == 1) ends.push_back(inner);
    }
  }

  std::size_t devices_;
  std::vector<Wire> wires_;
  std::vector<std::vector<std::size_t>> at_;
};

std::vector<model::DeviceIndex> whole_walk(const SpanningTree& tree, const model::Cluster& cluster,
                                           model::DeviceIndex master) {
  require(0 <= master && master < cluster.size(), "proximity: no such master");
  std::vector<bool> seen(tree.netpoints(), false);
  const double any = std::numeric_limits<double>::infinity();
  std::vector<model::DeviceIndex> order = tree.walk(static_cast<std::size_t>(master), any, seen);
  require(order.size() == cluster.devices().size(), "proximity: a device out of reach");
  return order;
}

// Groups that are left without wires longer than `near_s`, by device.
std::vector<std::int32_t> groups_within(const SpanningTree& tree,
                                        const std::vector<model::DeviceIndex>& order,
                                        double near_s) {
  std::vector<std::int32_t> group(order.size(), -1);
  std::vector<bool> seen(tree.netpoints(), false);
  std::int32_t groups = 0;
  for (const model::DeviceIndex device : order) {
    if (seen[static_cast<std::size_t>(device)]) continue;
    for (const model::DeviceIndex member :
         tree.walk(static_cast<std::size_t>(device), near_s, seen))
      group[static_cast<std::size_t>(member)] = groups;
    ++groups;
  }
  return group;
}

// The walk by latency, with the groups of each of the first `most` cuts.
std::vector<Proximity> by_latency(const model::Cluster& cluster, model::DeviceIndex master,
                                  std::size_t most) {
  const SpanningTree tree(cluster, sorted_wires(cluster));
  const std::vector<model::DeviceIndex> order = whole_walk(tree, cluster, master);
  std::vector<double> cuts = tree.near_s();
  cuts.resize(std::min(cuts.size(), most));
  std::vector<Proximity> result;
  result.reserve(cuts.size());
  for (const double near_s : cuts)
    result.push_back({.order = order, .group = groups_within(tree, order, near_s)});
  return result;
}

double latency_s(const model::Cluster& cluster, model::DeviceIndex a, model::DeviceIndex b) {
  return a == b ? 0.0 : cluster.route(a, b).latency.value();
}

// Nearest to the master first.
std::vector<model::DeviceIndex> by_distance(const model::Cluster& cluster,
                                            model::DeviceIndex master) {
  std::vector<model::DeviceIndex> order{master};
  for (model::DeviceIndex device = 0; device < cluster.size(); ++device) {
    if (device != master) order.push_back(device);
  }
  std::stable_sort(order.begin() + 1, order.end(), [&](auto a, auto b) {
    return latency_s(cluster, master, a) < latency_s(cluster, master, b);
  });
  return order;
}

// After each the nearest that is left.
std::vector<model::DeviceIndex> nearest_next(const model::Cluster& cluster,
                                             model::DeviceIndex master) {
  std::vector<model::DeviceIndex> order = by_distance(cluster, master);
  for (auto here = order.begin(); here + 1 != order.end(); ++here) {
    const auto next = std::min_element(here + 1, order.end(), [&](auto a, auto b) {
      return latency_s(cluster, *here, a) < latency_s(cluster, *here, b);
    });
    std::rotate(here + 1, next, next + 1);
  }
  return order;
}

}  // namespace

Proximity proximity(const model::Cluster& cluster, model::DeviceIndex master) {
  return by_latency(cluster, master, 1).front();
}

std::vector<std::vector<std::int32_t>> nested_groups(const model::Cluster& cluster,
                                                     model::DeviceIndex master, std::size_t most) {
  const SpanningTree tree(cluster, sorted_wires(cluster));
  const std::vector<model::DeviceIndex> order = whole_walk(tree, cluster, master);
  std::vector<std::vector<std::int32_t>> nested;
  for (const double near_s : tree.near_s(kDiffer)) {
    if (nested.size() == most) break;
    std::vector<std::int32_t> groups = groups_within(tree, order, near_s);
    const std::int32_t last = *std::ranges::max_element(groups);
    if (last == 0 || last + 1 == cluster.size() ||
        std::ranges::find(nested, groups) != nested.end())
      continue;
    nested.push_back(std::move(groups));
  }
  std::ranges::sort(nested, std::greater(), [](const std::vector<std::int32_t>& groups) {
    return *std::ranges::max_element(groups);
  });
  return nested;
}

Proximity wiring(const model::Cluster& cluster, model::DeviceIndex master) {
  std::vector<Wire> wires = sorted_wires(cluster);
  for (Wire& wire : wires) wire.latency_s = 0.0;
  std::sort(wires.begin(), wires.end());
  // Returns the router beside each device, the first of several.
  const std::size_t devices = cluster.devices().size();
  std::vector<std::size_t> router(devices, kNoRouter);
  for (const Wire& wire : wires) {
    if (wire.a < devices && wire.b >= devices) router[wire.a] = std::min(router[wire.a], wire.b);
  }
  Proximity result{.order = whole_walk(SpanningTree(cluster, std::move(wires)), cluster, master),
                   .group = std::vector<std::int32_t>(devices)};
  std::map<std::size_t, std::int32_t> numbers;
  for (const model::DeviceIndex device : result.order) {
    const auto d = static_cast<std::size_t>(device);
    result.group[d] =
        numbers.emplace(router[d], static_cast<std::int32_t>(numbers.size())).first->second;
  }
  return result;
}

std::vector<Proximity> layouts(const model::Cluster& cluster, model::DeviceIndex master) {
  std::vector<Proximity> result{wiring(cluster, master)};
  const auto add = [&](Proximity layout) {
    if (std::find(result.begin(), result.end(), layout) == result.end())
      result.push_back(std::move(layout));
  };
  add({.order = result.front().order,
       .group = std::vector<std::int32_t>(cluster.devices().size(), 0)});
  for (Proximity& layout : by_latency(cluster, master, kMostCuts)) add(std::move(layout));
  if (cluster.size() > kMostPairs) return result;
  const std::vector<std::int32_t> group = result.back().group;
  add({.order = by_distance(cluster, master), .group = group});
  add({.order = nearest_next(cluster, master), .group = group});
  return result;
}

}  // namespace tandem::planner
