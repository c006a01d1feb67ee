#include "exec/testbed/packet.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace tandem::test::packet_test {
namespace {

struct PacketOptions {
  std::uint8_t protocol = 6;
  std::size_t header = 20;     // of IP
  std::size_t transport = 32;  // header of TCP with time stamps
  std::size_t payload = 1000;
};

// From 10.77.0.1 to 10.77.0.2.
std::vector<std::byte> packet(const PacketOptions& options) {
  const std::size_t total = options.header + options.transport + options.payload;
  std::vector<std::byte> bytes(total);
  const auto put = [&](std::size_t at, std::size_t value) {
    bytes[at] = static_cast<std::byte>(value);
  };
  put(0, 0x40U | options.header / 4);
  put(2, total >> 8U);
  put(3, total & 0xffU);
  put(9, options.protocol);
  std::size_t i = 12;
  for (const unsigned part : {10U, 77U, 0U, 1U, 10U, 77U, 0U, 2U}) put(i++, part);
  if (options.protocol == 6) put(options.header + 12, options.transport / 4 << 4U);
  return bytes;
}

constexpr std::uint32_t kSecond = (10U << 24U) + (77U << 16U) + 2;

}  // namespace

TEST_CASE("exec/testbed packets: payload is what follows the headers") {
  for (const std::size_t payload : {0U, 1U, 1448U, 65000U}) {
    for (const std::size_t header : {20U, 24U, 60U}) {
      CAPTURE(payload);
      CAPTURE(header);
      CHECK(exec::parse_packet(packet({.header = header, .payload = payload})) ==
            exec::PacketFacts{.destination = kSecond, .payload = payload});
    }
  }
  CHECK(exec::parse_packet(packet({.protocol = 17, .transport = 8, .payload = 50}))->payload == 50);
  CHECK(exec::parse_packet(packet({.protocol = 1, .transport = 8, .payload = 56}))->payload == 56);
}

TEST_CASE("exec/testbed packets: what is no whole IPv4 packet is none") {
  const std::vector<std::byte> good = packet({.payload = 10});
  for (std::size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    CHECK(!exec::parse_packet(std::span(good).first(size)));
  }
  std::vector<std::byte> bad = good;
  bad[0] = std::byte{0x60};  // IPv6
  CHECK(!exec::parse_packet(bad));
  bad[0] = std::byte{0x44};  // a header of 16 bytes
  CHECK(!exec::parse_packet(bad));
  bad = good;
  bad[20 + 12] = std::byte{0xf0};  // TCP's header is longer than the packet
  CHECK(!exec::parse_packet(bad));
}

}  // namespace tandem::test::packet_test
