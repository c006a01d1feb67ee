#pragma once

// Workers that announce themselves on the local network: DNS-SD (RFC 6763) over multicast DNS (RFC
// 6762), by the Avahi daemon. A program that was built without Avahi's headers has
// dns_sd_none.cpp, where every call throws. Nothing that is found here is believed: a session needs
// the key.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/transport/cancellation.hpp"
#include "exec/transport/endpoint.hpp"

namespace tandem::exec {

inline constexpr const char* kWorkerService = "_tandem._tcp";

// A worker's service, as long as this lives.
class Announcement {
 public:
  // Announces `port` of this host under the host's name; a number is added if another service has
  // it. `log` is called on another thread with one line when the service has a name, and when the
  // daemon ends. Throws Error (reason, remedy) if there is no Avahi library or daemon, or the
  // daemon takes no service.
  Announcement(std::uint16_t port, std::function<void(const std::string& line)> log);
  ~Announcement();
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct FoundWorker {
  std::string name;   // of the service
  Endpoint endpoint;  // an address, IPv4 if it has one
};

// The workers that are announced now, in the order of their names: what is found until the daemon
// has asked the network and all names are resolved, or `time` is over. Of a worker with several
// addresses one that other machines reach. Throws Error as Announcement, or when cancelled.
[[nodiscard]] std::vector<FoundWorker> browse_workers(std::chrono::milliseconds time,
                                                      const Cancellation& cancellation);

}  // namespace tandem::exec
