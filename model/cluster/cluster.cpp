#include "model/cluster/cluster.hpp"

#include <algorithm>
#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <cmath>
#include <compare>
#include <cstdio>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/limits.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::model {

namespace {

// A netpoint is a device or a router, numbered in this order.
using Netpoint = std::int32_t;
constexpr Netpoint kNoNetpoint = -1;

// Between all pairs of 1024 devices. A plan file holds fewer.
constexpr std::size_t kMostRoutes = std::size_t{1} << 20U;

// The quantity that Dijkstra minimises: links, then latency.
struct Distance {
  std::int64_t links = 0;
  double latency_s = 0.0;
  auto operator<=>(const Distance&) const = default;
};
Distance operator+(Distance a, Distance b) {
  return {a.links + b.links, a.latency_s + b.latency_s};
}
constexpr Distance kUnreachable{std::numeric_limits<std::int64_t>::max(), 0.0};

// An edge in one of its directions.
struct Arc {
  std::int32_t edge = 0;  // position in Cluster::edges()
  bool backwards = false;
  Distance length;
};

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property,
                                    boost::property<boost::edge_weight_t, Distance, Arc>>;

std::uint64_t pair_key(Netpoint from, Netpoint to) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(from)) << 32U) |
         static_cast<std::uint32_t>(to);
}

using Names = std::unordered_map<std::string_view, std::int32_t>;

void add_name(Names& names, const std::string& name, std::size_t index, std::string_view what) {
  constexpr std::size_t kShown = 64;
  const std::string subject = std::string(what) + " '" + one_line(name.substr(0, kShown)) + "'";
  if (const std::string fault = fault_of_name(name); !fault.empty())
    throw Error(subject + ": a name with " + fault + "; rename it");
  // Lists of hosts have a device's name at the beginning of a line, and comments.
  if (what == "device" && (name.starts_with(' ') || name.ends_with(' ')))
    throw Error(subject + ": a name with a blank at its beginning or end; rename it");
  if (what == "device" && name.find('#') != std::string::npos)
    throw Error(subject + ": a name with a #, which begins a comment in lists of hosts; rename it");
  if (!names.emplace(name, static_cast<std::int32_t>(index)).second) {
    throw Error(subject + ": the name is given twice, expected unique names; rename one of them");
  }
}

std::string number(double value) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

// Allowed range of a number; 0 may also be allowed, for none.
struct Bounds {
  double least;
  double most;
  bool or_none = false;
};
constexpr Bounds kRate{limits::kLeastRate, limits::kMostRate};
constexpr Bounds kRateOrNone{limits::kLeastRate, limits::kMostRate, true};
constexpr Bounds kDelay{0.0, limits::kMostSeconds};
constexpr Bounds kFactor{limits::kLeastFactor, limits::kMostFactor};

void check_number(const std::string& subject, const char* field, double value, Bounds bounds) {
  if (value >= bounds.least && value <= bounds.most) return;
  if (bounds.or_none && value == 0.0) return;
  throw Error(subject + ": " + field + " is " + number(value) + ", expected a number from " +
              number(bounds.least) + " to " + number(bounds.most) +
              (bounds.or_none ? " or 0" : "") + "; correct the platform");
}

void check_count(const std::string& subject, std::size_t count, const char* what,
                 std::size_t most) {
  if (count <= most) return;
  throw Error(subject + ": " + std::to_string(count) + " " + what + ", expected at most " +
              std::to_string(most) + "; use a smaller platform");
}

// Changes during a run, one after the other.
template <class Change>
void check_times(const std::string& subject, const std::vector<Change>& changes) {
  check_count(subject, changes.size(), "changes during a run", limits::kChanges);
  double last = 0.0;
  for (const Change& change : changes) {
    check_number(subject, "time of a change", change.at.value(), {0.0, limits::kMostTime});
    if (change.at.value() < last) {
      throw Error(subject + ": a change at " + number(change.at.value()) + " s after one at " +
                  number(last) + " s, expected ascending times; sort them");
    }
    last = change.at.value();
  }
}

void check_device(const Device& device) {
  const std::string subject = "device '" + device.name + "'";
  check_number(subject, "cores", static_cast<double>(device.cores),
               {1.0, static_cast<double>(limits::kCores)});
  check_number(subject, "flop_rate", device.flop_rate.value(), kRate);
  check_number(subject, "memory_bandwidth", device.memory_bandwidth.value(), kRate);
  check_number(subject, "memory", device.memory.value(), {1.0, limits::kMostBytes});
  check_number(subject, "disk_bandwidth", device.disk_bandwidth.value(), kRateOrNone);
  check_number(subject, "slowdown", device.slowdown, kFactor);
  check_times(subject, device.speeds);
  for (const SpeedChange& change : device.speeds)
    check_number(subject, "speed factor", change.factor, kFactor);
}

void check_link(const Link& link) {
  const std::string subject = "link '" + link.name + "'";
  check_number(subject, "latency", link.latency.value(), kDelay);
  check_number(subject, "bandwidth", link.bandwidth.value(), kRate);
  check_number(subject, "jitter", link.jitter.value(), kDelay);
  check_number(subject, "background", link.background.value(), kRateOrNone);
  if (!(link.loss >= 0.0 && link.loss < 0.5)) {
    throw Error(subject + ": loss is " + number(link.loss) +
                ", expected a probability below 0.5; correct the platform");
  }
  if (link.sharing == Sharing::fatpipe && link.background.value() > 0.0) {
    throw Error(subject +
                ": background traffic, expected none on a FATPIPE, which is not shared; "
                "remove it or make the link SHARED or SPLITDUPLEX");
  }
  check_times(subject, link.changes);
  for (const LinkChange& change : link.changes) {
    if (change.bandwidth) check_number(subject, "bandwidth", change.bandwidth->value(), kRate);
    if (change.latency) check_number(subject, "latency", change.latency->value(), kDelay);
    if ((change.direction != Direction::none) == (link.sharing == Sharing::split_duplex)) continue;
    throw Error(subject + ": a change that " +
                (change.direction == Direction::none ? "has no direction, expected UP or DOWN"
                                                     : "has a direction, expected none") +
                " by its sharing; correct the platform");
  }
}

Netpoint netpoint(const Names& names, const std::string& name, const std::string& subject) {
  const auto found = names.find(name);
  if (found != names.end()) return found->second;
  throw Error(subject + ": '" + name +
              "' is neither a device nor a router, expected a declared one; correct the name or "
              "declare it");
}

void check_hop(const Hop& hop, const std::vector<Link>& links, const std::string& subject) {
  if (hop.link < 0 || static_cast<std::size_t>(hop.link) >= links.size()) {
    throw Error(subject + ": link number " + std::to_string(hop.link) + ", expected 0 to " +
                std::to_string(static_cast<std::int64_t>(links.size()) - 1) +
                "; correct the route's links");
  }
  const Link& link = links[static_cast<std::size_t>(hop.link)];
  const bool directed = hop.direction != Direction::none;
  if (directed != (link.sharing == Sharing::split_duplex)) {
    throw Error(subject + ": link '" + link.name + "' " +
                (directed ? "has a direction but is not split-duplex, expected none; remove the "
                            "direction"
                          : "is split-duplex but has no direction, expected UP or DOWN; add the "
                            "direction"));
  }
}

Hop reversed(Hop hop) {
  switch (hop.direction) {
    case Direction::none:
      return hop;
    case Direction::up:
      return {hop.link, Direction::down};
    case Direction::down:
      return {hop.link, Direction::up};
  }
  return hop;
}

template <class Visit>
void for_each_arc(const Graph& graph, Visit visit) {
  for (std::size_t from = 0; from < boost::num_vertices(graph); ++from) {
    for (auto [arc, last] = boost::out_edges(from, graph); arc != last; ++arc) {
      visit(from, boost::target(*arc, graph), graph[*arc]);
    }
  }
}

// Returns which netpoints are reached from netpoint 0 along (or, `backwards`, against) the arcs.
std::vector<bool> reached(const Graph& graph, bool backwards) {
  const std::size_t size = boost::num_vertices(graph);
  std::vector<std::vector<Netpoint>> next(size);
  for_each_arc(graph, [&](std::size_t from, std::size_t to, const Arc& /*arc*/) {
    if (backwards) std::swap(from, to);
    next[from].push_back(static_cast<Netpoint>(to));
  });
  std::vector<bool> seen(size, false);
  std::vector<Netpoint> stack{0};
  seen[0] = true;
  while (!stack.empty()) {
    const auto at = static_cast<std::size_t>(stack.back());
    stack.pop_back();
    for (const Netpoint to : next[at]) {
      const auto i = static_cast<std::size_t>(to);
      if (seen[i]) continue;
      seen[i] = true;
      stack.push_back(to);
    }
  }
  return seen;
}

}  // namespace

struct Cluster::Network {
  explicit Network(std::size_t netpoints) : graph(netpoints) {}

  Graph graph;
  std::unordered_map<std::uint64_t, Arc> direct;  // by pair_key

  void add_arc(Netpoint from, Netpoint to, const Arc& arc, const std::string& subject) {
    if (!direct.emplace(pair_key(from, to), arc).second) {
      throw Error(subject +
                  ": given twice, expected one route a pair (a symmetrical route counts "
                  "for both directions); remove one");
    }
    boost::add_edge(static_cast<std::size_t>(from), static_cast<std::size_t>(to),
                    Graph::edge_property_type(arc.length, arc), graph);
  }

  // Returns for each netpoint its predecessor on the shortest path from `source`, the smallest of
  // equally short ones; kNoNetpoint at the source and without a path.
  [[nodiscard]] std::vector<Netpoint> shortest_paths(Netpoint source) const {
    const std::size_t size = boost::num_vertices(graph);
    std::vector<Distance> distance(size, kUnreachable);
    std::vector<boost::default_color_type> color(size);
    const auto index = boost::get(boost::vertex_index, graph);
    boost::dijkstra_shortest_paths(
        graph, static_cast<std::size_t>(source), boost::dummy_property_map(),
        boost::make_iterator_property_map(distance.begin(), index),
        boost::get(boost::edge_weight, graph), index, std::less<Distance>{},
        [](Distance a, Distance b) { return a + b; }, kUnreachable, Distance{},
        boost::dijkstra_visitor<>(), boost::make_iterator_property_map(color.begin(), index));
    std::vector<Netpoint> before(size, kNoNetpoint);
    for_each_arc(graph, [&](std::size_t from, std::size_t to, const Arc& arc) {
      if (distance[from] == kUnreachable || distance[from] + arc.length != distance[to]) return;
      const auto candidate = static_cast<Netpoint>(from);
      if (before[to] == kNoNetpoint || candidate < before[to]) before[to] = candidate;
    });
    return before;
  }
};

namespace {

[[noreturn]] void throw_unreachable(const std::string& cluster, const std::string& from,
                                    const std::string& to) {
  throw Error("cluster '" + cluster + "': no route from '" + from + "' to '" + to +
              "', expected every device to reach every other; add a route");
}

}  // namespace

Cluster::Cluster(std::string name, std::vector<Device> devices, std::vector<std::string> routers,
                 std::vector<Link> links, std::vector<Edge> edges)
    : name_(std::move(name)),
      devices_(std::move(devices)),
      routers_(std::move(routers)),
      links_(std::move(links)),
      edges_(std::move(edges)) {
  if (devices_.empty()) {
    throw Error("cluster '" + name_ + "': no devices, expected at least one; add a host");
  }
  const std::string whole = "cluster '" + one_line(name_) + "'";
  if (const std::string fault = name_.empty() ? "" : fault_of_name(name_); !fault.empty())
    throw Error(whole + ": a name with " + fault + "; rename it");
  check_count(whole, devices_.size(), "devices", limits::kDevices);
  check_count(whole, routers_.size(), "routers", limits::kNetwork);
  check_count(whole, links_.size(), "links", limits::kNetwork);
  check_count(whole, edges_.size(), "routes", kMostRoutes);
  const std::size_t netpoints = devices_.size() + routers_.size();
  Names points;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    add_name(points, devices_[i].name, i, "device");
    check_device(devices_[i]);
  }
  for (std::size_t i = 0; i < routers_.size(); ++i) {
    add_name(points, routers_[i], devices_.size() + i, "router");
  }
  Names link_names;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    add_name(link_names, links_[i].name, i, "link");
    check_link(links_[i]);
  }

  auto network = std::make_shared<Network>(netpoints);
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const Edge& edge = edges_[i];
    const std::string subject = "route '" + edge.from + "' -> '" + edge.to + "'";
    const Netpoint from = netpoint(points, edge.from, subject);
    const Netpoint to = netpoint(points, edge.to, subject);
    if (from == to) {
      throw Error(subject + ": leads to itself, expected two different netpoints; remove it");
    }
    if (edge.hops.empty()) {
      throw Error(subject + ": no links, expected at least one; add its links");
    }
    check_count(subject, edge.hops.size(), "links", limits::kHops);
    Arc arc{static_cast<std::int32_t>(i), false, {}};
    for (const Hop& hop : edge.hops) {
      check_hop(hop, links_, subject);
      arc.length =
          arc.length + Distance{1, links_[static_cast<std::size_t>(hop.link)].latency.value()};
    }
    network->add_arc(from, to, arc, subject);
    if (!edge.symmetrical) continue;
    arc.backwards = true;
    network->add_arc(to, from, arc, subject);
  }

  for (const bool backwards : {false, true}) {
    const std::vector<bool> seen = reached(network->graph, backwards);
    for (std::size_t i = 1; i < devices_.size(); ++i) {
      if (seen[i]) continue;
      const auto [from, to] =
          backwards ? std::pair{i, std::size_t{0}} : std::pair{std::size_t{0}, i};
      throw_unreachable(name_, devices_[from].name, devices_[to].name);
    }
  }
  network_ = std::move(network);
  routes_.resize(devices_.size());
  trees_.resize(devices_.size());
}

DeviceIndex Cluster::find(const std::string& device) const {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].name == device) return static_cast<DeviceIndex>(i);
  }
  constexpr std::size_t kShown = 16;
  std::string known;
  for (std::size_t i = 0; i < std::min(devices_.size(), kShown); ++i) {
    known += i == 0 ? "" : ", ";
    known += devices_[i].name;
  }
  if (devices_.size() > kShown) known += ", ...";
  throw Error("device '" + device + "': unknown in cluster '" + name_ + "', expected one of " +
              known + "; correct the name");
}

const Route& Cluster::route(DeviceIndex from, DeviceIndex to) const {
  require(from >= 0 && from < size() && to >= 0 && to < size() && from != to,
          "route: expected two different devices of the cluster");
  const auto source = static_cast<std::size_t>(from);
  std::vector<Route>& row = routes_[source];
  if (row.empty()) row.resize(devices_.size());
  Route& route = row[static_cast<std::size_t>(to)];
  if (!route.hops.empty()) return route;

  std::vector<Arc> arcs;  // last first
  if (const auto given = network_->direct.find(pair_key(from, to));
      given != network_->direct.end()) {
    arcs.push_back(given->second);
  } else {
    std::vector<std::int32_t>& tree = trees_[source];
    if (tree.empty()) tree = network_->shortest_paths(from);
    for (Netpoint at = to; at != from; at = tree[static_cast<std::size_t>(at)]) {
      arcs.push_back(network_->direct.at(pair_key(tree[static_cast<std::size_t>(at)], at)));
    }
  }
  std::vector<Hop> hops;
  for (auto arc = arcs.rbegin(); arc != arcs.rend(); ++arc) {
    const std::vector<Hop>& given = edges_[static_cast<std::size_t>(arc->edge)].hops;
    if (arc->backwards) {
      for (auto hop = given.rbegin(); hop != given.rend(); ++hop) hops.push_back(reversed(*hop));
    } else {
      hops.insert(hops.end(), given.begin(), given.end());
    }
  }
  double latency_s = 0.0;
  double bandwidth_Bps = std::numeric_limits<double>::infinity();
  for (const Hop& hop : hops) {
    const Link& link = links_[static_cast<std::size_t>(hop.link)];
    latency_s += link.latency.value();
    const auto passes =
        link.sharing == Sharing::fatpipe ? 1 : std::count(hops.begin(), hops.end(), hop);
    bandwidth_Bps = std::min(bandwidth_Bps, link.bandwidth.value() / static_cast<double>(passes));
  }
  route = {std::move(hops), Seconds{latency_s}, BytesPerSecond{bandwidth_Bps}};
  return route;
}

std::string variation(const Cluster& cluster) {
  for (const Device& device : cluster.devices()) {
    if (!device.speeds.empty()) return "device '" + device.name + "': a speed that changes";
  }
  for (const Link& link : cluster.links()) {
    const std::string subject = "link '" + link.name + "': ";
    if (link.jitter.value() > 0.0) return subject + "jitter";
    if (link.loss > 0.0) return subject + "loss";
    if (link.background.value() > 0.0) return subject + "background traffic";
    if (!link.changes.empty()) return subject + "a bandwidth or latency that changes";
  }
  return "";
}

bool operator==(const Cluster& a, const Cluster& b) {
  return a.name_ == b.name_ && a.devices_ == b.devices_ && a.routers_ == b.routers_ &&
         a.links_ == b.links_ && a.edges_ == b.edges_;
}

}  // namespace tandem::model
