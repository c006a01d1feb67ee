#pragma once

// Reads scenario files: SimGrid platform XML to model::Cluster.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/predict/device_share.hpp"

namespace tandem::sim {

struct Platform {
  model::Cluster cluster;
  std::vector<std::string> defaults;  // one line for each assumed value, with its devices
  std::size_t hosts = 0;  // that the caller may use; `cluster` may have only those it does
  std::map<std::string, std::string> processors{};  // by device, of those that name theirs
  // By device, of those that have one below 1: `cluster` has what their share leaves.
  std::map<std::string, model::DeviceShare> shares{};
  std::optional<model::Cluster> uncapped{};  // `cluster` without shares, if there are some
  std::vector<std::string> remarks{};        // one line for each thing that is read unusually
};

struct PlatformOptions {
  // Hosts to read, as names or patterns (* and ? match any); empty: all. In a file of one zone the
  // others stay as routers where routes lead through them.
  std::vector<std::string> hosts{};
  // Hosts that the caller will use, as `hosts`: of a platform that SimGrid flattens, only routes
  // between these are read if `hosts` is empty.
  std::vector<std::string> used{};
  // Where these come from, and what to do about one that the file lacks, for the error.
  std::string used_by = "--devices or --master";
  std::string used_remedy = "correct it";
  // Values for devices whose file states none: memory, memory_bandwidth, disk_bandwidth.
  std::map<std::string, std::string> defaults{};
  // Shares of devices (model/predict/device_share.hpp), instead of the file's.
  std::map<std::string, double> shares{};
};

// Reads and checks a SimGrid platform file. Extensions are <prop>s of a <host>: "tandem:memory",
// "tandem:memory_bandwidth", "tandem:disk_bandwidth", "tandem:slowdown" (values with units),
// "tandem:share" (of memory and cores, above 0 and at most 1) and "tandem:processor" (a name), all
// optional. Any other <prop id="tandem:..."> is an error. SimGrid
// itself loads the file in a forked child with a timeout. A file of one zone of hosts, routers,
// links and routes keeps its graph if SimGrid finds the same routes in it, which it may not where
// two are equally short; any other is read as SimGrid flattens it. Throws Error: file:line,
// subject, value, expected, remedy; for a name or pattern that no host has, too, and for a share of
// no host.
[[nodiscard]] Platform read_platform(const std::string& path, const PlatformOptions& options = {});

}  // namespace tandem::sim
