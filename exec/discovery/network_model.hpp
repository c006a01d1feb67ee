#pragma once

// A network as a few capacities that flows between devices share. Numbers in, numbers out: what
// infer_network() fits to measurements and the platform writer turns into links.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::exec {

// Devices of one network, one bit each.
using DeviceSet = std::uint32_t;
inline constexpr int kMostNetworkDevices = 16;

// Bytes a second from one device to another.
struct Flow {
  int from = 0;
  int to = 0;
  double rate = 0.0;
};
// Flows at the same time.
using Trial = std::vector<Flow>;

enum class SegmentKind : std::uint8_t {
  port,    // of one device: sends and receives at once, each at its own rate
  medium,  // half duplex: all traffic of `members` shares it, within them with two passes (Wi-Fi)
  uplink,  // between `members` and the others: a rate in each direction (a cable of two switches)
  bridge,  // the same, but both directions share the rate (powerline, a wireless bridge)
  path,    // from one device to one other, where nothing shared explains that they are slower
};

struct Segment {
  SegmentKind kind = SegmentKind::port;
  DeviceSet members = 0;  // path: the sender
  int to = 0;             // path: the receiver
  // Bytes a second: of a port or an uplink out of `members` and into them, else of both together
  // (only `out` counts).
  double out = 0.0;
  double in = 0.0;
};

// How often a flow passes the segment: out of `members` (or any way if directions share the rate)
// and into them.
struct Passes {
  int out = 0;
  int in = 0;
};
[[nodiscard]] Passes passes(const Segment& segment, int from, int to);

// The rates that the flows of `trial` get on `segments`: max-min fair, each pass counted. The rates
// in `trial` are ignored. A flow that passes nothing gets an infinite rate.
[[nodiscard]] std::vector<double> fair_rates(const std::vector<Segment>& segments,
                                             const Trial& trial);

}  // namespace tandem::exec
