#pragma once

// What the packet emulator needs to know of an IP packet.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem::exec {

struct PacketFacts {
  std::uint32_t destination = 0;  // IPv4 address, host byte order
  std::size_t payload = 0;        // bytes behind the headers of IP and TCP, UDP or ICMP
  bool operator==(const PacketFacts&) const = default;
};

// Reads an IPv4 packet, which may be a TCP segment of up to 64 KiB that the kernel has left for its
// device to cut up (GSO). Headers are not payload: they are charged to no link, since platforms
// state what links carry of a program's bytes. Absent if `packet` is no whole IPv4 packet.
[[nodiscard]] std::optional<PacketFacts> parse_packet(std::span<const std::byte> packet);

}  // namespace tandem::exec
