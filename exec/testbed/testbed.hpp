#pragma once

// A platform as a real network on this machine: a network namespace a device, and the links between
// them.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/testbed/emulator.hpp"
#include "exec/testbed/network_namespace.hpp"
#include "exec/testbed/tcp_settings.hpp"
#include "model/cluster/cluster.hpp"

namespace tandem::exec {

// Throws Error (subject, value, expected, remedy) unless a testbed of this machine can be as fast
// as `cluster`: its devices' number, its links' bandwidth.
void check_testbed(const model::Cluster& cluster);

// Throws Error (what is missing, the remedy) unless this process may make a testbed here: root,
// TUN, network namespaces.
void check_testbed_rights();

// Owns namespaces, TUN devices and the emulator. They have no names, so that they vanish with the
// process however it ends. Whatever carries a plan's messages is charged: latency and bandwidth of
// the routes, links shared; jitter, loss, background traffic and changes are not emulated.
class Testbed {
 public:
  // Throws Error as check_testbed() and NetworkNamespace do. Takes a second.
  Testbed(const model::Cluster& cluster, TcpChoice tcp);

  [[nodiscard]] const std::vector<NetworkNamespace>& namespaces() const { return namespaces_; }
  [[nodiscard]] std::uint32_t address(model::DeviceIndex device) const;
  // Of the emulator, packets included that a namespace's full TUN device has lost; since the
  // beginning or the last call.
  [[nodiscard]] EmulatorStatistics take_statistics();
  // What packets take beside the links' time, measured at the start and subtracted since.
  [[nodiscard]] std::chrono::nanoseconds overhead() const { return overhead_; }
  // How the network is made, for a result's environment.
  [[nodiscard]] std::map<std::string, std::string> environment() const;
  // Routes that are slower than they should be, as their latency is below the overhead; empty:
  // none.
  [[nodiscard]] std::string remark() const;

 private:
  model::Cluster cluster_;
  TcpChoice tcp_;
  std::vector<NetworkNamespace> namespaces_;  // by DeviceIndex
  std::chrono::nanoseconds overhead_{};
  std::int64_t lost_before_ = 0;  // by TUN devices
  std::unique_ptr<Emulator> emulator_;
};

}  // namespace tandem::exec
