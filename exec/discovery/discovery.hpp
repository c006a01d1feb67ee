#pragma once

// Asks workers about their machines and has them measure the links between them.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/discovery/network_inference.hpp"
#include "exec/transport/endpoint.hpp"
#include "exec/transport/key.hpp"
#include "exec/transport/wire.hpp"
#include "model/base/units.hpp"
#include "model/predict/device_profile.hpp"

namespace tandem::exec {

struct DiscoveryHost {
  std::string name{};  // empty: what the host calls itself
  Endpoint endpoint{};
  bool local = false;  // a worker of this process; without one, the first on this machine counts
};

struct DiscoveredDevice {
  std::string name;
  Endpoint endpoint;
  bool local = false;  // on this machine
  About about;
  model::DeviceProfile profile;
};

enum class DiscoveryStage : std::uint8_t { profiles, links };

struct DiscoveryOptions {
  std::vector<DiscoveryHost> hosts{};  // no two with one endpoint or one name
  std::optional<Key> key{};
  ProfileOrder profile{};  // what to measure of each machine
  model::Bytes walked{};   // weights_between_messages() of its model
  std::chrono::milliseconds connect{5'000};
  std::chrono::milliseconds silence{5'000};
  std::chrono::milliseconds stream{300};  // of one trial
  // Starts a worker in this process, where no worker of `hosts` is on this machine. May be empty.
  std::function<Endpoint()> start_local{};
  // Any thread calls these, one at a time. May be empty.
  std::function<void(DiscoveryStage stage, std::size_t done, std::size_t total)> progress{};
  std::function<void(const DiscoveredDevice& device)> on_profile{};  // as soon as it is known
};

struct Discovery {
  std::vector<DiscoveredDevice> devices;  // this machine's first, then in the order of the hosts
  NetworkMeasurements network;            // of `devices`; empty if there is one only
  // A line each: hosts that did not answer, that had another key, were busy or twice in the list;
  // devices left out since a pair of them has no connection.
  std::vector<std::string> faults;
};

class Discoverer {
 public:
  explicit Discoverer(DiscoveryOptions options);
  ~Discoverer();
  Discoverer(const Discoverer&) = delete;
  Discoverer& operator=(const Discoverer&) = delete;

  // Connects to all hosts; has machines profiled, workers of one machine one after another, others
  // at the same time; opens links and measures them. Latency: ask_round_trips() less the mean of
  // what both profiles charge for such a message, 0 at the least. Throws Error if no
  // host is left, if a measurement of links fails or a worker is lost in it, and when cancelled;
  // what on_profile throws.
  [[nodiscard]] Discovery run();
  // Ends run(), here and at the workers. Any thread, any time.
  void cancel(const std::string& reason) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// `host` as the name of a device: letters, digits, '-', '_', '.', others replaced by '-'; "device"
// if nothing is left.
[[nodiscard]] std::string device_name(const std::string& host);

}  // namespace tandem::exec
