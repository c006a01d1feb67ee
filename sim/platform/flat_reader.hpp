#pragma once

// A platform of any structure as the routes that SimGrid finds between its hosts. Private to sim/.

#include <string_view>

#include "sim/platform/graph_reader.hpp"
#include "sim/platform/host_patterns.hpp"

namespace tandem::sim {

// Returns whether the document is one zone of hosts, routers, links and routes, which read_graph
// reads. Other documents are for read_flat.
[[nodiscard]] bool is_graph(const XmlDocument& document);

// Returns the hosts that are `chosen`, with a route between
// every two as SimGrid flattens them, and no routers. A Wi-Fi link becomes a shared medium of its
// first rate, passed once by its station's end of a route. Latency beyond that of a route's links
// (coordinates) becomes a fat pipe of its own. `text` is what SimGrid loads. Throws Error: source,
// line, construct, remedy; for a pair without a route, with hosts that reach each other; for a name
// that chooses no host.
[[nodiscard]] GraphParts read_flat(const XmlDocument& document, const Profiles& profiles,
                                   const Assumed& assumed, std::string_view text,
                                   const HostPatterns& chosen);

}  // namespace tandem::sim
