#pragma once

// What a packet's way through the emulator takes beside the links' time.

#include <chrono>
#include <cstdint>
#include <span>

#include "exec/testbed/network_namespace.hpp"

namespace tandem::exec {

struct PingOptions {
  std::size_t bytes = 64;  // each way
  int warm_up = 20;        // round trips that are not counted
  int rounds = 100;
};

// Median time of a message over TCP from `from` to `to`, which may be one namespace: half of a
// round trip, until the receiver's program has it. `address` is the receiver's, IPv4 in host byte
// order. Throws Error with the system's reason.
[[nodiscard]] std::chrono::nanoseconds ping(const NetworkNamespace& from,
                                            const NetworkNamespace& to, std::uint32_t address,
                                            const PingOptions& options = {});

// The overhead of an emulator between the first two of `namespaces`, whose addresses follow each
// other from `first_address`: messages over links of 1 ms, less that millisecond and less what the
// same message takes over loopback, which real devices' systems take, too. It includes how late
// threads wake. Takes half a second. No other emulator may read the TUN devices meanwhile. Throws
// Error if it is so long that this machine must be busy with other programs.
[[nodiscard]] std::chrono::nanoseconds measure_emulator_overhead(
    std::span<const NetworkNamespace> namespaces, std::uint32_t first_address);

}  // namespace tandem::exec
