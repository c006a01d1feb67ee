#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exec/discovery/discovery.hpp"

namespace tandem::exec {

// The workers in `text`, lines of "[device-name] host:port"; `#` begins a comment. "device-name
// local" names this machine, which has no worker in the list; of such a line the endpoint is empty.
// Throws Error (source and line, what is wrong, what is expected, remedy) for other lines, names
// that cannot be devices', and names or addresses that are there twice.
[[nodiscard]] std::vector<DiscoveryHost> parse_host_list(std::string_view text,
                                                         const std::string& source);

}  // namespace tandem::exec
