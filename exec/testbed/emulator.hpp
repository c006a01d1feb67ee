#pragma once

// The network between the namespaces of a testbed: a thread that moves IP packets.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/cluster/cluster.hpp"

namespace tandem::exec {

struct EmulatorOptions {
  std::vector<int> tuns;  // by DeviceIndex: open TUN devices, not blocking; outlive the emulator
  std::uint32_t first_address = 0;  // IPv4, host byte order, of device 0; the others' follow
  // What a packet takes beside the links' time: packets are handed on earlier by this.
  std::chrono::nanoseconds overhead{};
};

struct EmulatorStatistics {
  std::int64_t packets = 0;    // handed on
  std::int64_t lost = 0;       // that the kernel did not take, or that no device has asked for
  double payload_bytes = 0.0;  // handed on
  double cpu_s = 0.0;          // of its thread
  double mean_late_s = 0.0;    // packets were handed on after they were due
  double max_late_s = 0.0;
};

// Reads each packet that a device sends, has the links of `cluster` carry it (LinkSchedule), and
// writes it to the receiver's TUN device when its last byte is due. Nothing is lost: senders are
// bounded by TCP's windows. Owns a thread, which runs before all ordinary threads where the system
// allows it (SCHED_FIFO).
class Emulator {
 public:
  static constexpr int kPriority = 50;  // SCHED_FIFO

  Emulator(const model::Cluster& cluster, const EmulatorOptions& options);
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  // Since the beginning or the last call. Any thread.
  [[nodiscard]] EmulatorStatistics take_statistics();
  // Whether the thread has its priority.
  [[nodiscard]] bool has_priority() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace tandem::exec
