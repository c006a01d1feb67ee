#pragma once

#include <iosfwd>

#include "exec/discovery/discovery.hpp"
#include "exec/discovery/network_inference.hpp"

namespace tandem::cli {

// Prints what was found: a table of devices and one of links.
void print_discovery(const exec::Discovery& found, const exec::NetworkSegments& network,
                     std::ostream& out);

}  // namespace tandem::cli
