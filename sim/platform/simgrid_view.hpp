#pragma once

// A platform as SimGrid flattens it. Private to sim/.

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/platform/host_patterns.hpp"

namespace tandem::sim {

// A link of SimGrid: a split-duplex link of the file is two, NAME_UP and NAME_DOWN.
struct ViewedLink {
  std::string name{};
  double bandwidth_Bps = 0.0;
  double latency_s = 0.0;
  bool fatpipe = false;
  bool wifi = false;  // the bandwidth is meaningless: each station has a rate
};

struct ViewedDisk {
  std::string name{};
  double read_Bps = 0.0;
};

struct ViewedHost {
  std::string name{};
  double speed = 0.0;  // flops per second of one core, in the p-state of the file
  int cores = 1;
  std::vector<ViewedDisk> disks{};
  std::map<std::string, std::string> properties{};
};

struct ViewedRoute {
  std::size_t from = 0;  // positions in `hosts`
  std::size_t to = 0;
  double latency_s = 0.0;            // may exceed the sum over the links (coordinates)
  std::vector<std::size_t> links{};  // positions in `links`, in order
};

struct SimgridView {
  std::vector<ViewedHost> hosts{};
  std::vector<ViewedLink> links{};
  std::vector<ViewedRoute> routes{};
};

// The routes to read: between the named pairs of hosts, or, if there are none, between all pairs of
// hosts that are `chosen`.
struct ViewedPairs {
  std::vector<std::pair<std::string, std::string>> pairs{};
  HostPatterns chosen{};
};

// Most hosts between all of which routes are read.
inline constexpr std::size_t kMostFlattened = 1024;

// Loads `text` with SimGrid in a child process and returns its hosts, links and the wanted routes.
// A pair without a route has none in the result. Throws Error naming `source`: SimGrid's message,
// its abort, a timeout, more than kMostFlattened chosen hosts, or a name that chooses none.
[[nodiscard]] SimgridView view_with_simgrid(std::string_view text, const std::string& source,
                                            const ViewedPairs& wanted);

}  // namespace tandem::sim
