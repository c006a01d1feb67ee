#pragma once

// Scenario files: SimGrid platform XML to model::Cluster.

#include <string>
#include <vector>

#include "model/cluster/cluster.hpp"

namespace tandem::sim {

struct Platform {
  model::Cluster cluster;
  std::vector<std::string> defaults;  // one line for each value that was assumed, and of whom
};

// Reads and checks a SimGrid platform file. Our additions are <prop>s of a <host>: "tandem:memory",
// "tandem:memory_bandwidth", "tandem:disk_bandwidth", "tandem:slowdown" (values with units), all
// optional. A <prop id="tandem:..."> that is not one of these is an error. Meaning is checked first
// (pugixml), then SimGrid itself loads the file in a forked child with a timeout, and its routes
// must agree. Throws Error: file:line, subject, value, expected, remedy.
[[nodiscard]] Platform read_platform(const std::string& path);

}  // namespace tandem::sim
