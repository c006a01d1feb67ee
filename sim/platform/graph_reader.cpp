#include "sim/platform/graph_reader.hpp"

#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/base/limits.hpp"
#include "model/base/quantity_text.hpp"
#include "sim/platform/xml_document.hpp"
#include "sim/platform/xml_values.hpp"

namespace tandem::sim {
namespace {

using pugi::xml_node;

constexpr std::size_t kMaxNetpoints = 8192;  // beyond, SimGrid's own routing takes minutes

// Floyd examines every three netpoints first: 3 s for so many, and minutes for more.
constexpr std::size_t kMaxFloyd = 2048;

class PlatformReader {
 public:
  PlatformReader(const XmlDocument& document, const Profiles& profiles, const Assumed& assumed)
      : document_(document), profiles_(profiles), assumed_(assumed) {}

  std::optional<GraphParts> read() {
    const xml_node platform = document_.root("platform");
    document_.expect(platform, {"version"}, {}, {"zone", "config"});
    const xml_node zone = platform.child("zone");
    if (!zone) document_.fail(platform, "has no <zone>, expected one; add it");
    document_.expect(zone, {"id", "routing"}, {},
                     {"prop", "host", "router", "link", "route", "trace", "trace_connect"});
    const std::string zone_id = read_id(document_, zone);
    require_unique(zone, zone_id);
    const std::string_view routing = zone.attribute("routing").value();
    if (routing != "Full" && routing != "Dijkstra" && routing != "DijkstraCache" &&
        routing != "Floyd") {
      document_.fail(zone, "has routing=\"" + std::string(routing.substr(0, 40)) +
                               "\", expected DijkstraCache, Dijkstra, Floyd or Full; choose "
                               "DijkstraCache unless every route is given");
    }
    full_ = routing == "Full";
    refuse_our_props(document_, zone);
    for (const xml_node node : zone.children("host")) {
      devices_.push_back(read_host(document_, node, assumed_, processors_));
      new_netpoint(node, devices_.back().name);
    }
    for (const xml_node node : zone.children("router")) read_router(node);
    if (routing == "Floyd" && nodes_.size() > kMaxFloyd) {
      document_.fail(zone, "has routing=\"Floyd\" and " + std::to_string(nodes_.size()) +
                               " hosts and routers, expected at most " + std::to_string(kMaxFloyd) +
                               " with it; set routing=\"DijkstraCache\", which finds the same "
                               "routes");
    }
    for (const xml_node node : zone.children("link")) read_link(node);
    for (const xml_node node : zone.children("route")) read_route(node);
    if (devices_.empty()) document_.fail(zone, "has no <host>, expected at least one; add it");
    if (full_ && !is_complete()) return std::nullopt;
    check_connected(zone);
    profiles_.connect(devices_, links_, {});
    return GraphParts{zone_id,           std::move(devices_), std::move(routers_),
                      std::move(links_), std::move(edges_),   std::move(processors_)};
  }

 private:
  using Netpoint = std::size_t;

  void require_unique(xml_node node, const std::string& name) {
    if (netpoint_names_.insert(name).second) return;
    document_.fail(node,
                   "has an id that another host, router or zone has, expected unique ids; rename "
                   "one");
  }

  void new_netpoint(xml_node node, const std::string& name) {
    require_unique(node, name);
    if (nodes_.size() == kMaxNetpoints) {
      document_.fail(node, "is one host or router too many, expected at most " +
                               std::to_string(kMaxNetpoints) + "; split the platform");
    }
    netpoints_.emplace(name, nodes_.size());
    nodes_.push_back(node);
  }

  void read_router(xml_node node) {
    document_.expect(node, {"id"}, {}, {});
    routers_.push_back(read_id(document_, node));
    new_netpoint(node, routers_.back());
  }

  void read_link(xml_node node) {
    document_.expect(node, {"id", "bandwidth", "latency"},
                     {"sharing_policy", "bandwidth_file", "latency_file"}, {"prop"});
    model::Link link;
    link.name = read_id(document_, node);
    link.bandwidth = read_rate(document_, node, "bandwidth");
    // SimGrid's DTD has a default for the latency, but its reader refuses it.
    link.latency = model::parse_seconds(with_unit(node.attribute("latency").value(), "s"),
                                        document_.where(node) + " latency");
    const auto policy = node.attribute("sharing_policy");
    const std::string_view name = policy ? policy.value() : "SHARED";
    if (name == "SHARED") {
      link.sharing = model::Sharing::shared;
    } else if (name == "SPLITDUPLEX") {
      link.sharing = model::Sharing::split_duplex;
    } else if (name == "FATPIPE") {
      link.sharing = model::Sharing::fatpipe;
    } else {
      document_.fail(node, "has sharing_policy=\"" + std::string(name.substr(0, 40)) +
                               "\", expected SHARED, SPLITDUPLEX or FATPIPE; a Wi-Fi medium is "
                               "SHARED");
    }
    read_link_props(document_, node, link);
    // SimGrid makes two links of a split-duplex one, with these names.
    std::vector<std::string> names{link.name};
    if (link.sharing == model::Sharing::split_duplex) {
      names.push_back(link.name + "_UP");
      names.push_back(link.name + "_DOWN");
    }
    for (const std::string& each : names) {
      if (!link_names_.insert(each).second) {
        document_.fail(node, "would be a second link named " + each +
                                 " (a SPLITDUPLEX link x is also x_UP and x_DOWN), expected unique "
                                 "ids; rename one");
      }
    }
    link_index_.emplace(link.name, static_cast<model::LinkIndex>(links_.size()));
    links_.push_back(std::move(link));
  }

  Netpoint end_of_route(xml_node node, const char* attribute) const {
    const auto found = netpoints_.find(node.attribute(attribute).value());
    if (found == netpoints_.end()) {
      document_.fail(node, "has " + std::string(attribute) + "=\"" +
                               std::string(node.attribute(attribute).value()).substr(0, 40) +
                               "\", expected a host or router of the zone; correct it");
    }
    return found->second;
  }

  model::Hop read_hop(xml_node node) const {
    document_.expect(node, {"id"}, {"direction"}, {});
    const auto found = link_index_.find(node.attribute("id").value());
    if (found == link_index_.end()) {
      document_.fail(node, "names no link, expected one of the zone; add or correct it");
    }
    const auto attribute = node.attribute("direction");
    const std::string_view direction = attribute ? attribute.value() : "NONE";
    const bool split =
        links_[static_cast<std::size_t>(found->second)].sharing == model::Sharing::split_duplex;
    model::Hop hop{.link = found->second};
    if (split && direction == "UP") {
      hop.direction = model::Direction::up;
    } else if (split && direction == "DOWN") {
      hop.direction = model::Direction::down;
    } else if (split || direction != "NONE") {
      document_.fail(node, "has direction " + std::string(direction.substr(0, 40)) + ", expected " +
                               (split ? "UP or DOWN, as the link is SPLITDUPLEX"
                                      : "none, as the link is not SPLITDUPLEX") +
                               "; mend it");
    }
    return hop;
  }

  void read_route(xml_node node) {
    document_.expect(node, {"src", "dst"}, {"symmetrical"}, {"link_ctn"});
    const Netpoint from = end_of_route(node, "src");
    const Netpoint to = end_of_route(node, "dst");
    model::Edge edge;
    edge.from = node.attribute("src").value();
    edge.to = node.attribute("dst").value();
    if (const auto attribute = node.attribute("symmetrical")) {
      const std::string_view text = attribute.value();
      if (text != "YES" && text != "yes" && text != "NO" && text != "no") {
        document_.fail(node, "has symmetrical=\"" + std::string(text.substr(0, 40)) +
                                 "\", expected YES or NO; mend it");
      }
      edge.symmetrical = text == "YES" || text == "yes";
    }
    if (from == to && edge.symmetrical && !full_) {
      document_.fail(
          node, "leads from " + edge.from +
                    " to itself, which SimGrid takes with routing=\"Full\" only; remove it: no "
                    "device sends to itself");
    }
    std::set<std::pair<model::LinkIndex, model::Direction>> used;
    for (const xml_node hop : node.children("link_ctn")) {
      edge.hops.push_back(read_hop(hop));
      const bool again = !used.emplace(edge.hops.back().link, edge.hops.back().direction).second;
      if (again && edge.hops.back().direction != model::Direction::none) {
        document_.fail(hop,
                       "is on the route twice in one direction, expected once: only a medium "
                       "(SHARED) is passed again; remove one");
      }
    }
    if (edge.hops.empty()) {
      document_.fail(node, "from " + edge.from + " to " + edge.to +
                               " has no link, expected at least one <link_ctn>; add it");
    }
    const bool first = routes_.emplace(from, to).second;
    const bool back_first = !edge.symmetrical || from == to || routes_.emplace(to, from).second;
    if (!first || !back_first) {
      document_.fail(node, "from " + edge.from + " to " + edge.to +
                               " is given twice, expected once (routes are symmetrical unless "
                               "symmetrical=\"NO\"); remove one");
    }
    // A route to itself is SimGrid's loopback; a device never sends to itself.
    if (from != to) edges_.push_back(std::move(edge));
  }

  // Every netpoint must reach every other: the first reaches all, and all reach the first.
  void check_connected(xml_node zone) const {
    std::vector<std::vector<Netpoint>> forward(nodes_.size());
    std::vector<std::vector<Netpoint>> backward(nodes_.size());
    for (const auto& [from, to] : routes_) {
      forward[from].push_back(to);
      backward[to].push_back(from);
    }
    for (const auto* neighbours : {&forward, &backward}) {
      std::vector<bool> reached(nodes_.size(), false);
      std::vector<Netpoint> open{0};
      reached[0] = true;
      while (!open.empty()) {
        const Netpoint at = open.back();
        open.pop_back();
        for (const Netpoint next : (*neighbours)[at]) {
          if (!reached[next]) open.push_back(next);
          reached[next] = true;
        }
      }
      for (Netpoint i = 0; i < nodes_.size(); ++i) {
        if (reached[i]) continue;
        document_.fail(nodes_[i],
                       (neighbours == &forward ? "is not reached from " : "does not reach ") +
                           std::string(nodes_[0].attribute("id").value()) + " by the routes of " +
                           zone.attribute("id").value() +
                           ", expected every host and router connected; add a route");
      }
    }
  }

  // Whether a route is given between every two devices.
  [[nodiscard]] bool is_complete() const {
    for (const model::Device& a : devices_) {
      const Netpoint from = netpoints_.at(a.name);
      for (const model::Device& b : devices_) {
        const Netpoint to = netpoints_.at(b.name);
        if (from != to && !routes_.contains({from, to})) return false;
      }
    }
    return true;
  }

  const XmlDocument& document_;
  const Profiles& profiles_;
  const Assumed& assumed_;
  bool full_ = false;  // routing: every route is given
  std::map<std::string, std::string> processors_;
  std::vector<model::Device> devices_;
  std::vector<std::string> routers_;
  std::vector<model::Link> links_;
  std::vector<model::Edge> edges_;
  std::unordered_set<std::string> netpoint_names_;
  std::unordered_map<std::string, Netpoint> netpoints_;
  std::vector<xml_node> nodes_;  // by Netpoint
  std::unordered_set<std::string> link_names_;
  std::unordered_map<std::string, model::LinkIndex> link_index_;
  std::set<std::pair<Netpoint, Netpoint>> routes_;
};

}  // namespace

void read_link_props(const XmlDocument& document, xml_node node, model::Link& link) {
  std::set<std::string_view> given;
  for (const xml_node prop : node.children("prop")) {
    document.expect(prop, {"id", "value"}, {}, {});
    if (!is_ours(prop)) {
      refuse_unprefixed(document, prop, "link " + link.name, {"jitter", "loss", "background"});
      continue;
    }
    const std::string_view id = prop.attribute("id").value();
    const std::string_view value = prop.attribute("value").value();
    const std::string subject = document.where(prop) + " of link " + link.name;
    if (!given.insert(id).second)
      document.fail(prop, "is given twice for link " + link.name + "; remove one");
    if (id == "tandem:jitter") {
      link.jitter = model::parse_seconds(value, subject);
    } else if (id == "tandem:background") {
      link.background = model::parse_rate(value, subject);
    } else if (id == "tandem:loss") {
      const auto loss = bare_number(value);
      if (!loss || !(*loss >= 0.0) || !(*loss < 0.5)) {
        document.fail(prop, "of link " + link.name + " has value \"" +
                                std::string(value.substr(0, 40)) +
                                "\", expected a probability from 0 to below 0.5, such as 0.01; "
                                "mend it");
      }
      link.loss = *loss;
    } else {
      document.fail(prop, "of link " + link.name +
                              " is unknown, expected tandem:jitter, tandem:loss or "
                              "tandem:background; correct its name");
    }
  }
}

std::optional<GraphParts> read_graph(const XmlDocument& document, const Profiles& profiles,
                                     const Assumed& assumed) {
  return PlatformReader(document, profiles, assumed).read();
}

}  // namespace tandem::sim
