#pragma once

// Devices and the network between them. Read from SimGrid platform XML by sim/platform; stored in
// the plan as JSON. Independent of SimGrid.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/units.hpp"

namespace tandem::model {

using DeviceIndex = std::int32_t;  // position in Cluster::devices()
using LinkIndex = std::int32_t;    // position in Cluster::links()

// From `at` on, a device computes at `factor` times its full speed.
struct SpeedChange {
  Seconds at{};
  double factor = 1.0;
  bool operator==(const SpeedChange&) const = default;
};

struct Device {
  std::string name{};
  std::int64_t cores = 1;
  FlopsPerSecond flop_rate{};         // all cores, dense f32 GEMM
  BytesPerSecond memory_bandwidth{};  // all cores, sequential read
  Bytes memory{};                     // budget for the program
  BytesPerSecond disk_bandwidth{};    // sequential read; 0: no disk
  double slowdown = 1.0;              // emulation: factor of measured compute times
  std::vector<SpeedChange> speeds{};  // during a run, ascending in time; computing only
  bool operator==(const Device&) const = default;
};

// SimGrid's sharing policies. `shared`: both directions share the bandwidth (Wi-Fi).
// `split_duplex`: each direction has the whole bandwidth (switched Ethernet). `fatpipe`: every
// flow has the whole bandwidth.
enum class Sharing { shared, split_duplex, fatpipe };
enum class Direction { none, up, down };  // up/down: of a split_duplex link only

// From `at` on, a link's bandwidth or latency (or both) is this; of a split_duplex link in one
// direction, up or down.
struct LinkChange {
  Seconds at{};
  Direction direction = Direction::none;
  std::optional<BytesPerSecond> bandwidth{};
  std::optional<Seconds> latency{};
  bool operator==(const LinkChange&) const = default;
};

struct Link {
  std::string name{};
  Seconds latency{};
  BytesPerSecond bandwidth{};
  Sharing sharing = Sharing::split_duplex;
  Seconds jitter{};                   // mean extra delay of a message, exponentially distributed
  double loss = 0.0;                  // probability that a segment is lost; less than a half
  BytesPerSecond background{};        // rate limit of a competing flow; split duplex: of two flows
  std::vector<LinkChange> changes{};  // during a run, ascending in time
  bool operator==(const Link&) const = default;
};

struct Hop {
  LinkIndex link = 0;
  Direction direction = Direction::none;
  bool operator==(const Hop&) const = default;
};

// A given connection of two netpoints (devices or routers): one <route> of the XML. `symmetrical`:
// also valid backwards, with hops reversed and up and down exchanged.
struct Edge {
  std::string from{};
  std::string to{};
  std::vector<Hop> hops{};
  bool symmetrical = true;
  bool operator==(const Edge&) const = default;
};

// One message of B bytes alone on a route takes `latency` + B / `bandwidth`.
struct Route {
  std::vector<Hop> hops{};
  Seconds latency{};  // sum over the hops
  // Minimum over the links of bandwidth / passes: a message that passes a medium twice (Wi-Fi from
  // station to station through the access point) loads it twice.
  BytesPerSecond bandwidth{};
};

// Invariant: at least one device; unique names of devices, routers and links; every device reaches
// every other. Value type; `route` fills a cache: must not be shared between threads.
class Cluster {
 public:
  // Throws Error (name, value, expected, remedy) unless the invariant holds, names are printable
  // (model/base/plain_text.hpp), and all counts and numbers are within model/base/limits.hpp.
  Cluster(std::string name, std::vector<Device> devices, std::vector<std::string> routers,
          std::vector<Link> links, std::vector<Edge> edges);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<Device>& devices() const { return devices_; }
  [[nodiscard]] const std::vector<std::string>& routers() const { return routers_; }
  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  [[nodiscard]] const std::vector<Edge>& edges() const { return edges_; }
  [[nodiscard]] DeviceIndex size() const { return static_cast<DeviceIndex>(devices_.size()); }
  // Returns the index of the device of that name. Throws Error with the known names.
  [[nodiscard]] DeviceIndex find(const std::string& device) const;

  // Returns the route from one device to another: the given edge between them, else the shortest
  // path (fewest links, as SimGrid's Dijkstra routing; then least latency; then smallest netpoint
  // order, so that it is unique). Throws logic_error if from == to or out of range.
  [[nodiscard]] const Route& route(DeviceIndex from, DeviceIndex to) const;

  friend bool operator==(const Cluster& a, const Cluster& b);

 private:
  std::string name_;
  std::vector<Device> devices_;
  std::vector<std::string> routers_;
  std::vector<Link> links_;
  std::vector<Edge> edges_;
  struct Network;                           // the graph, by Boost.Graph; shared by copies
  std::shared_ptr<const Network> network_;  // never changes
  // Caches by source, filled on first use: routes by destination, and the shortest-path tree.
  mutable std::vector<std::vector<Route>> routes_;
  mutable std::vector<std::vector<std::int32_t>> trees_;
};

// Returns an example of what varies on `cluster` over time, randomly or by background traffic
// ("link 'x': jitter"); empty if nothing does. The analytic evaluator and emulation ignore all of
// it.
[[nodiscard]] std::string variation(const Cluster& cluster);

}  // namespace tandem::model
