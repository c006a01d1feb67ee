#pragma once

// What was discovered, as the files that `plan`, `simulate` and `run` read.

#include <string>
#include <vector>

#include "exec/discovery/discovery.hpp"
#include "exec/discovery/network_inference.hpp"

namespace tandem::exec {

// A platform file (docs/reference/platform.md). Hosts: cores, available memory, and speed, memory
// bandwidth and disk as measured by the profile. A link for each segment, and a route for every
// ordered pair. What a link transfers a second is measured with the sender's own work in it, which
// the cost model charges by itself: 1 / bandwidth = 1 / measured - seconds a byte of the senders'
// profiles, of which a tenth of 1 / measured is left at the least.
// `network` is ignored if there is one device only. Throws logic_error if there is none.
[[nodiscard]] std::string platform_xml(const std::string& name, const std::string& comment,
                                       const std::vector<DiscoveredDevice>& devices,
                                       const NetworkSegments& network);

// Lines "name host:port" of `run --hosts`; of the device on this machine "name local".
[[nodiscard]] std::string hosts_text(const std::vector<DiscoveredDevice>& devices);

// Name of the link that stands for segment `index`.
[[nodiscard]] std::string segment_name(const std::vector<DiscoveredDevice>& devices,
                                       const NetworkSegments& network, std::size_t index);

}  // namespace tandem::exec
