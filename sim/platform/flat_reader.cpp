#include "sim/platform/flat_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/limits.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/quantity_text.hpp"
#include "sim/platform/simgrid_view.hpp"
#include "sim/platform/xml_values.hpp"

namespace tandem::sim {
namespace {

using pugi::xml_node;

// Elements and routings that SimGrid flattens.
constexpr std::array<std::string_view, 11> kFlattened{
    "cluster",       "cabinet", "peer",    "zoneRoute", "bypassRoute", "bypassZoneRoute",
    "bypassASroute", "AS",      "ASroute", "host_link", "backbone"};
constexpr std::array<std::string_view, 5> kFlattenedRoutings{"None", "Vivaldi", "WIFI", "Wifi",
                                                             "Cluster"};

// More hosts of one <cluster> are refused before SimGrid makes them.
constexpr std::int64_t kMostRadical = 100000;

// Of a <cluster>: "0-3,7", numbers and ranges of them.
void check_radical(const XmlDocument& document, xml_node node) {
  const std::string_view text = node.attribute("radical").value();
  const auto refuse = [&](const std::string& expected) {
    document.fail(node, "has radical=\"" + model::one_line(text, 40) + "\", expected " + expected);
  };
  std::int64_t hosts = 0;
  std::istringstream list{std::string(text)};
  for (std::string range; std::getline(list, range, ',');) {
    std::erase(range, ' ');
    const char* const end = range.data() + range.size();
    std::int64_t first = -1;
    auto [at, bad] = std::from_chars(range.data(), end, first);
    std::int64_t last = first;
    if (bad == std::errc{} && at != end && *at == '-') {
      const auto [after, fault] = std::from_chars(at + 1, end, last);
      at = after;
      bad = fault;
    }
    if (bad != std::errc{} || at != end || first < 0 || last < first)
      refuse("numbers and ascending ranges of them, as 0-3,7; mend it");
    hosts += std::min(last - first, kMostRadical) + 1;
    if (hosts > kMostRadical)
      refuse("at most " + std::to_string(kMostRadical) + " hosts; shorten it");
  }
  if (hosts == 0) refuse("the numbers of its hosts, as 0-3,7; add them");
}

void check_link(const XmlDocument& document, xml_node node) {
  model::Link link{.name = node.attribute("id").value()};
  read_link_props(document, node, link);
  const auto latency = node.attribute("latency");
  if (std::string_view(node.attribute("sharing_policy").value()) != "WIFI" || !latency) return;
  if (model::parse_seconds(with_unit(latency.value(), "s"), document.where(node) + " latency")
          .value() != 0.0)
    document.fail(node, "has latency=\"" + model::one_line(latency.value(), 40) +
                            "\", expected 0, as SimGrid's Wi-Fi has no latency of its own; set 0, "
                            "and add it to a link behind the access point");
}

// Refuses what SimGrid would silently accept, or fill the machine's memory with.
void check_document(const XmlDocument& document) {
  const auto has_hosts = [](xml_node node) {
    const std::string_view name = node.name();
    return name == "host" || name == "cluster" || name == "cabinet" || name == "peer";
  };
  if (std::ranges::none_of(document.elements(), has_hosts))
    document.fail(document.root("platform"), "has no host, expected at least one; add it");
  for (const xml_node node : document.elements()) {
    const std::string_view name = node.name();
    if (name == "include")
      document.fail(node, "is not supported; write the content of that file in its place");
    if (name == "prop" && is_ours(node)) {
      const std::string_view owner = node.parent().name();
      if (owner != "host" && owner != "link" && owner != "cluster" && owner != "cabinet")
        document.fail(node,
                      "expected in a <host>, <link>, <cluster> or <cabinet> only; move or "
                      "remove it");
    }
    if (name == "host" || name == "cluster" || name == "cabinet") check_values(document, node);
    if (node.attribute("radical")) check_radical(document, node);
    if (name == "link") check_link(document, node);
  }
}

class FlatReader {
 public:
  FlatReader(const XmlDocument& document, const Assumed& assumed, SimgridView view)
      : document_(document), assumed_(assumed), view_(std::move(view)) {
    for (const xml_node node : document_.elements()) {
      const std::string_view name = node.name();
      const std::string id = node.attribute("id").value();
      if (name == "host" || name == "peer") host_nodes_.emplace(id, node);
      if (name == "link") link_nodes_.emplace(id, node);
      if (name == "cluster" || name == "cabinet") clusters_.push_back(node);
    }
    for (std::size_t i = 0; i < view_.links.size(); ++i)
      link_names_.emplace(view_.links[i].name, i);
  }

  GraphParts read(const HostPatterns& chosen) {
    select(chosen);
    drop_inner_wifi();
    find_split_links();
    for (const ViewedRoute& route : view_.routes) read_route(route);
    parts_.name = name_of_platform();
    return std::move(parts_);
  }

  [[nodiscard]] bool has_host(const std::string& name) const {
    return std::ranges::any_of(view_.hosts,
                               [&](const ViewedHost& host) { return host.name == name; });
  }

  // Whether SimGrid has a link of that name.
  [[nodiscard]] bool has_link(const std::string& name) const { return link_names_.contains(name); }

 private:
  void select(const HostPatterns& chosen) {
    std::vector<std::string> names;
    names.reserve(view_.hosts.size());
    for (const ViewedHost& host : view_.hosts) names.push_back(host.name);
    parts_.hosts = names.size();
    const std::vector<std::size_t> selected = chosen_hosts(chosen, names, document_.source());
    parts_.devices.reserve(selected.size());
    for (const std::size_t i : selected) parts_.devices.push_back(device_of(view_.hosts[i]));
    require_routes(selected);
  }

  model::Device device_of(const ViewedHost& host) {
    const xml_node at = place_of_host(host.name);
    if (const std::string fault = model::fault_of_name(host.name); !fault.empty())
      document_.fail(at, "names a host with " + fault + "; rename it");
    model::Device device;
    device.name = host.name;
    device.cores = host.cores;
    require_positive(document_, at, "speed", host.speed);
    device.flop_rate = model::FlopsPerSecond{host.speed * host.cores};
    std::vector<DiskValues> disks;
    disks.reserve(host.disks.size());
    for (const ViewedDisk& disk : host.disks) {
      require_positive(document_, at, "a disk with read_bw", disk.read_Bps);
      disks.push_back({disk.name, model::BytesPerSecond{disk.read_Bps}});
    }
    set_values(document_, at, host.properties, disks, assumed_, device, parts_.processors);
    return device;
  }

  // The element that makes the host: its own, or the cluster of the longest prefix.
  [[nodiscard]] xml_node place_of_host(const std::string& name) const {
    if (const auto found = host_nodes_.find(name); found != host_nodes_.end()) return found->second;
    xml_node best = document_.root("platform");
    std::size_t longest = 0;
    for (const xml_node cluster : clusters_) {
      const std::string_view prefix = cluster.attribute("prefix").value();
      if (!name.starts_with(prefix) || !name.ends_with(cluster.attribute("suffix").value()) ||
          prefix.size() < longest)
        continue;
      best = cluster;
      longest = prefix.size();
    }
    return best;
  }

  [[nodiscard]] static std::uint64_t key(std::size_t from, std::size_t to) {
    return (static_cast<std::uint64_t>(from) << 32U) | to;
  }

  void require_routes(const std::vector<std::size_t>& selected) {
    std::size_t missing = 0;
    for (std::size_t i = 0; i < view_.routes.size(); ++i)
      route_of_.emplace(key(view_.routes[i].from, view_.routes[i].to), i);
    std::pair<std::size_t, std::size_t> first;
    const auto reaches = [&](std::size_t from, std::size_t to) {
      return from == to || route_of_.contains(key(from, to));
    };
    for (const std::size_t from : selected) {
      for (const std::size_t to : selected) {
        if (reaches(from, to)) continue;
        if (missing++ == 0) first = {from, to};
      }
    }
    if (missing == 0) return;
    // The largest set of hosts that is found by adding each that reaches all before it.
    std::vector<std::size_t> best;
    for (std::size_t start = 0; start < std::min<std::size_t>(selected.size(), 64); ++start) {
      std::vector<std::size_t> set{selected[start]};
      for (const std::size_t host : selected) {
        if (std::ranges::all_of(set, [&](std::size_t one) {
              return one != host && reaches(one, host) && reaches(host, one);
            }))
          set.push_back(host);
      }
      if (set.size() > best.size()) best = std::move(set);
    }
    std::string names;
    for (std::size_t i = 0; i < std::min<std::size_t>(best.size(), 8); ++i)
      names += (i == 0 ? "" : ",") + pattern_of(view_.hosts[best[i]].name);
    document_.fail(place_of_host(view_.hosts[first.first].name),
                   "has no route from " + view_.hosts[first.first].name + " to " +
                       view_.hosts[first.second].name +
                       (missing > 1 ? " (nor have " + std::to_string(missing - 1) +
                                          (missing == 2 ? " other pair" : " other pairs") + ")"
                                    : "") +
                       ", expected one between every two hosts of a plan; add it, or name hosts "
                       "that reach each other: --hosts '" +
                       names + "'");
  }

  // A Wi-Fi link loads its medium for the station at either end of a route, and nowhere else:
  // SimGrid's routes name it again for the access point, and its network model skips that.
  void drop_inner_wifi() {
    for (ViewedRoute& route : view_.routes) {
      std::vector<std::size_t> kept;
      kept.reserve(route.links.size());
      for (std::size_t i = 0; i < route.links.size(); ++i) {
        if (view_.links[route.links[i]].wifi && i > 0 && i + 1 < route.links.size()) continue;
        kept.push_back(route.links[i]);
      }
      route.links = std::move(kept);
    }
  }

  // SimGrid's links x_UP and x_DOWN are again one split-duplex link x where that is the same: two
  // equal links, neither of which is one of the file or is passed twice by a route.
  void find_split_links() {
    std::unordered_set<std::size_t> repeated;
    for (const ViewedRoute& route : view_.routes) {
      std::vector<std::size_t> links = route.links;
      std::ranges::sort(links);
      for (std::size_t i = 1; i < links.size(); ++i) {
        if (links[i] == links[i - 1]) repeated.insert(links[i]);
      }
    }
    constexpr std::string_view kUp = "_UP";
    for (const auto& [name, up] : link_names_) {
      if (!name.ends_with(kUp)) continue;
      const std::string whole = name.substr(0, name.size() - kUp.size());
      const auto found = link_names_.find(whole + "_DOWN");
      if (whole.empty() || found == link_names_.end() || link_names_.contains(whole) ||
          link_nodes_.contains(name) || link_nodes_.contains(found->first))
        continue;
      const std::size_t down = found->second;
      const ViewedLink& a = view_.links[up];
      const ViewedLink& b = view_.links[down];
      if (a.bandwidth_Bps != b.bandwidth_Bps || a.latency_s != b.latency_s || a.fatpipe ||
          b.fatpipe || a.wifi || b.wifi || repeated.contains(up) || repeated.contains(down))
        continue;
      split_.emplace(up, std::pair{whole, model::Direction::up});
      split_.emplace(down, std::pair{whole, model::Direction::down});
    }
  }

  // The hop over SimGrid's link of that number; the link is made when it is first passed.
  model::Hop hop_of(std::size_t index) {
    const auto split = split_.find(index);
    const bool is_split = split != split_.end();
    const std::string& name = is_split ? split->second.first : view_.links[index].name;
    const auto [at, fresh] = made_.try_emplace(name, parts_.links.size());
    if (fresh) make_link(name, view_.links[index], is_split);
    return {static_cast<model::LinkIndex>(at->second),
            is_split ? split->second.second : model::Direction::none};
  }

  // The <link> that SimGrid's link comes from: the one of that name, or the split-duplex link of
  // which it is a direction.
  [[nodiscard]] auto node_of_link(const std::string& name) const {
    auto node = link_nodes_.find(name);
    for (const std::string_view end : {"_UP", "_DOWN"}) {
      if (node != link_nodes_.end() || !name.ends_with(end)) continue;
      node = link_nodes_.find(name.substr(0, name.size() - end.size()));
      if (node != link_nodes_.end() && !is_split_duplex(node->second)) node = link_nodes_.end();
    }
    return node;
  }

  void make_link(const std::string& name, const ViewedLink& viewed, bool is_split) {
    const auto node = node_of_link(name);
    const xml_node at = node == link_nodes_.end() ? document_.root("platform") : node->second;
    if (const std::string fault = model::fault_of_name(name); !fault.empty())
      document_.fail(at, "names a link with " + fault + "; rename it");
    model::Link link{.name = name,
                     .latency = model::Seconds{viewed.latency_s},
                     .bandwidth = model::BytesPerSecond{viewed.bandwidth_Bps},
                     .sharing = viewed.fatpipe ? model::Sharing::fatpipe
                                : is_split     ? model::Sharing::split_duplex
                                               : model::Sharing::shared};
    if (viewed.wifi) {
      if (node == link_nodes_.end())
        document_.fail(at, "has the Wi-Fi link " + name + " without a <link>; write it as one");
      const std::string rates = at.attribute("bandwidth").value();
      link.bandwidth = model::parse_rate(with_unit(rates.substr(0, rates.find(',')), "Bps"),
                                         document_.where(at) + " bandwidth");
      assumed_.defaults->note(
          "rate of Wi-Fi stations assumed to be the first, " + to_text(link.bandwidth), name);
    }
    require_positive(document_, at, "bandwidth of link " + name, link.bandwidth.value());
    if (!(link.latency.value() >= 0.0))
      document_.fail(at, "has latency " + std::to_string(link.latency.value()) + " of link " +
                             name + ", expected 0 or more; mend it");
    if (node != link_nodes_.end()) read_link_props(document_, at, link);
    parts_.links.push_back(std::move(link));
  }

  // What a route's latency has more than its links.
  [[nodiscard]] double distance_s(const ViewedRoute& route) const {
    double links_s = 0.0;
    for (const std::size_t link : route.links) links_s += view_.links[link].latency_s;
    const double more = route.latency_s - links_s;
    return std::abs(more) <= 1e-12 * std::max(route.latency_s, links_s) ? 0.0 : more;
  }

  void read_route(const ViewedRoute& route) {
    const std::string& from = view_.hosts[route.from].name;
    const std::string& to = view_.hosts[route.to].name;
    const double distance = distance_s(route);
    if (!(distance >= 0.0))
      document_.fail(place_of_host(from), "has a route to " + to + " with latency " +
                                              std::to_string(route.latency_s) +
                                              " s in SimGrid, less than its links have; give that "
                                              "route in the file");
    model::Edge edge{.from = from, .to = to, .symmetrical = false};
    edge.hops.reserve(route.links.size() + 1);
    for (const std::size_t link : route.links) edge.hops.push_back(hop_of(link));
    if (const auto back = route_of_.find(key(route.to, route.from)); back != route_of_.end()) {
      const ViewedRoute& other = view_.routes[back->second];
      if (is_mirrored(edge.hops, other) && distance_s(other) == distance) {
        if (route.from > route.to) return;  // the other direction's edge is symmetrical
        edge.symmetrical = true;
      }
    }
    if (distance > 0.0) edge.hops.push_back(distance_hop(from + " - " + to, distance));
    parts_.edges.push_back(std::move(edge));
  }

  [[nodiscard]] bool is_mirrored(const std::vector<model::Hop>& hops, const ViewedRoute& other) {
    if (hops.size() != other.links.size()) return false;
    for (std::size_t i = 0; i < hops.size(); ++i) {
      const model::Hop back = hop_of(other.links[hops.size() - 1 - i]);
      const bool directed = back.direction != model::Direction::none;
      if (back.link != hops[i].link || (directed && back.direction == hops[i].direction))
        return false;
    }
    return true;
  }

  // A link of its own that delays and does nothing else.
  model::Hop distance_hop(const std::string& pair, double distance) {
    std::string name = "distance " + pair;
    while (link_names_.contains(name) || made_.contains(name)) name += "'";
    made_.emplace(name, parts_.links.size());
    parts_.links.push_back({.name = name,
                            .latency = model::Seconds{distance},
                            .bandwidth = model::BytesPerSecond{model::limits::kMostRate},
                            .sharing = model::Sharing::fatpipe});
    return {static_cast<model::LinkIndex>(parts_.links.size() - 1), model::Direction::none};
  }

  [[nodiscard]] std::string name_of_platform() const {
    for (const xml_node node : document_.root("platform").children()) {
      std::string id = node.attribute("id").value();
      if (std::string_view(node.name()) != "config" && !id.empty() &&
          model::fault_of_name(id).empty())
        return id;
    }
    return "platform";
  }

  const XmlDocument& document_;
  const Assumed& assumed_;
  SimgridView view_;
  GraphParts parts_;
  std::unordered_map<std::string, xml_node> host_nodes_;
  std::unordered_map<std::string, xml_node> link_nodes_;
  std::vector<xml_node> clusters_;
  std::unordered_map<std::string, std::size_t> link_names_;  // position in the view
  std::unordered_map<std::uint64_t, std::size_t> route_of_;  // by key(from, to)
  std::unordered_map<std::size_t, std::pair<std::string, model::Direction>> split_;
  std::unordered_map<std::string, std::size_t> made_;  // position in parts_.links
};

}  // namespace

bool is_graph(const XmlDocument& document) {
  const xml_node platform = document.root("platform");
  int zones = 0;
  for (const xml_node node : document.elements()) {
    const std::string_view name = node.name();
    if (name == "zone" && ++zones > 1) return false;
    if (std::ranges::find(kFlattened, name) != kFlattened.end()) return false;
    if (std::ranges::find(kFlattenedRoutings, node.attribute("routing").value()) !=
        kFlattenedRoutings.end())
      return false;
    if (std::string_view(node.attribute("sharing_policy").value()) == "WIFI" && name == "link")
      return false;
  }
  return zones == 1 && platform.child("zone");
}

GraphParts read_flat(const XmlDocument& document, const Profiles& profiles, const Assumed& assumed,
                     std::string_view text, const HostPatterns& chosen) {
  check_document(document);
  FlatReader reader(document, assumed,
                    view_with_simgrid(text, document.source(), {.chosen = chosen}));
  GraphParts parts = reader.read(chosen);
  profiles.connect(parts.devices, parts.links,
                   {.host = [&](const std::string& name) { return reader.has_host(name); },
                    .link = [&](const std::string& name) { return reader.has_link(name); }});
  return parts;
}

}  // namespace tandem::sim
