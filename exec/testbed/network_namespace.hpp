#pragma once

// A network of its own for each device: a namespace that nothing but this process holds.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "model/base/descriptor.hpp"

namespace tandem::exec {

// How a device's network device is set up.
struct TunSettings {
  std::uint32_t address = 0;          // IPv4, host byte order
  int prefix_bits = 16;               // of the addresses that all devices share
  std::uint32_t piece_bytes = 65536;  // most that the kernel hands over at once (GSO)
  // Segments that a new connection may have in flight at once, and offer room for; 0: the kernel's.
  std::uint32_t first_window = 0;
  std::string congestion_control{};  // of its connections; empty: the machine's default
};

// A network namespace with loopback and one TUN device, "tandem0". It has no name: it and the TUN
// device vanish with the last process that has it open or is in it. Move-only.
class NetworkNamespace {
 public:
  // Throws Error (what was refused, the system's reason, remedy): not root, no TUN device, no
  // namespaces.
  explicit NetworkNamespace(const TunSettings& settings);

  // Open; to enter it with setns(2).
  [[nodiscard]] int descriptor() const { return namespace_.number(); }
  // The TUN device's, not blocking. A packet is preceded by its virtio_net_hdr, kHeaderBytes.
  [[nodiscard]] int tun() const { return tun_.number(); }
  static constexpr std::size_t kHeaderBytes = 10;

  // Runs `action` on a thread of its own in this namespace, and hands on what it throws.
  void run(const std::function<void()>& action) const;
  // Sets a network setting of this namespace: `name` as "ipv4.tcp_congestion_control". Throws Error
  // (name, value, the system's reason).
  void set(const std::string& name, std::string_view value) const;
  [[nodiscard]] std::string get(const std::string& name) const;
  // Packets that the TUN device had no room for, so far.
  [[nodiscard]] std::int64_t lost_packets() const;

 private:
  model::Descriptor namespace_;
  model::Descriptor tun_;
};

// The value of a network setting in the namespace of the calling thread, without its end of line;
// empty if there is none.
[[nodiscard]] std::string network_setting(const std::string& name);

// An IPv4 address as text: "10.77.0.1".
[[nodiscard]] std::string address_text(std::uint32_t address);

}  // namespace tandem::exec
