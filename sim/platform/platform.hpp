#pragma once

// Reads scenario files: SimGrid platform XML to model::Cluster.

#include <map>
#include <string>
#include <vector>

#include "model/cluster/cluster.hpp"

namespace tandem::sim {

struct Platform {
  model::Cluster cluster;
  std::vector<std::string> defaults;  // one line for each assumed value, with its devices
  std::map<std::string, std::string> processors{};  // by device, of those that name theirs
};

// Reads and checks a SimGrid platform file. Extensions are <prop>s of a <host>: "tandem:memory",
// "tandem:memory_bandwidth", "tandem:disk_bandwidth", "tandem:slowdown" (values with units) and
// "tandem:processor" (a name), all optional. Any other <prop id="tandem:..."> is an error. First
// checks the meaning (pugixml); then SimGrid itself loads the file in a forked child with a
// timeout, and its routes must agree. Throws Error: file:line, subject, value, expected, remedy.
[[nodiscard]] Platform read_platform(const std::string& path);

}  // namespace tandem::sim
