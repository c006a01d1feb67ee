#include "exec/testbed/packet.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kLeastHeader = 20;  // of IPv4, and of TCP
constexpr std::size_t kWord = 4;          // bytes; header lengths are given in words
constexpr std::uint8_t kTcp = 6;

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t at) {
  return std::to_integer<std::uint8_t>(bytes[at]);
}

std::size_t pair_at(std::span<const std::byte> bytes, std::size_t at) {
  return static_cast<std::size_t>(byte_at(bytes, at)) << 8 | byte_at(bytes, at + 1);
}

}  // namespace

std::optional<PacketFacts> parse_packet(std::span<const std::byte> packet) {
  if (packet.size() < kLeastHeader || byte_at(packet, 0) >> 4 != 4) return std::nullopt;
  const std::size_t header = (byte_at(packet, 0) & 0xFU) * kWord;
  const std::size_t total = pair_at(packet, 2);
  if (header < kLeastHeader || total < header || total > packet.size()) return std::nullopt;
  constexpr std::size_t kDestination = 16;
  const PacketFacts facts{.destination =
                              static_cast<std::uint32_t>(pair_at(packet, kDestination) << 16 |
                                                         pair_at(packet, kDestination + 2))};
  std::size_t headers = header;
  const std::uint8_t protocol = byte_at(packet, 9);
  if (protocol == kTcp) {
    constexpr std::size_t kLength = 12;  // of the header, in the upper half of this byte
    if (total < header + kLeastHeader) return std::nullopt;
    headers += (byte_at(packet, header + kLength) >> 4U) * kWord;
  } else {
    constexpr std::size_t kDatagramHeader = 8;  // of UDP, and of ICMP
    headers += kDatagramHeader;
  }
  if (headers > total) return std::nullopt;
  return PacketFacts{.destination = facts.destination, .payload = total - headers};
}

}  // namespace tandem::exec
