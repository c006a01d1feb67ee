#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exec/transport/endpoint.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::exec {

// Where the devices of `plan` listen, by DeviceIndex, from lines "device-name host:port"; `#`
// begins a comment. The master is this process: its line is absent or says "local". No two devices
// may share an address. Throws Error
// (source and line, what is wrong, what is expected, remedy).
[[nodiscard]] std::vector<Endpoint> parse_hosts(std::string_view text, const std::string& source,
                                                const planner::Plan& plan);

}  // namespace tandem::exec
