#pragma once

// Requests to the kernel about network devices and routes that no ioctl knows (rtnetlink(7)).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem::exec {

// One request: a fixed header, then attributes. Built front to back.
class NetlinkRequest {
 public:
  // `body`: the header that `type` has (ifinfomsg, rtmsg).
  NetlinkRequest(std::uint16_t type, std::uint16_t flags, std::span<const std::byte> body);
  void attribute(std::uint16_t type, std::span<const std::byte> value);
  void attribute(std::uint16_t type, std::uint32_t value);
  // Attributes until end() are within this one.
  [[nodiscard]] std::size_t begin(std::uint16_t type);
  void end(std::size_t begun);

  // Sends it in the namespace of the calling thread. Throws Error (`what`, the system's reason) if
  // the kernel refuses it.
  void send(const std::string& what);

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace tandem::exec
