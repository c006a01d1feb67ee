#pragma once

// A platform file of one zone as the graph that it gives. Private to sim/.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "sim/platform/platform_host.hpp"
#include "sim/platform/profiles.hpp"
#include "sim/platform/xml_document.hpp"

namespace tandem::sim {

// The arguments of model::Cluster, and the processors of those devices that name theirs.
struct GraphParts {
  std::string name{};
  std::vector<model::Device> devices{};
  std::vector<std::string> routers{};
  std::vector<model::Link> links{};
  std::vector<model::Edge> edges{};
  std::map<std::string, std::string> processors{};
  std::size_t hosts = 0;  // of the file; `devices` may be some of them
};

// Reads one <zone> of hosts, routers, links and routes; rejects what SimGrid would crash or hang
// on, or silently accept. Returns nothing if the routing is Full and some pairs of hosts have no
// route. Throws Error: source:line: subject, value, expected, remedy.
[[nodiscard]] std::optional<GraphParts> read_graph(const XmlDocument& document,
                                                   const Profiles& profiles,
                                                   const Assumed& assumed);

// Sets jitter, loss and background of `link` from the <prop>s of `node`. Errors as read_graph.
void read_link_props(const XmlDocument& document, pugi::xml_node node, model::Link& link);

}  // namespace tandem::sim
