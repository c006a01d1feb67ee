#pragma once

// Sums over a device's tasks of a run: everything that a result needs, in constant size, where a
// record of each task would grow with every token.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/runtime/time_log.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::exec {

struct KindTally {
  std::int64_t count = 0;
  std::int64_t total_ns = 0;
  bool operator==(const KindTally&) const = default;
};

// The transfers of one channel, at one end.
struct ChannelTally {
  model::DeviceIndex peer = 0;
  bool sends = false;
  std::int64_t count = 0;
  // Sum over transfers of the time at which the channel took it (sender) or it arrived (receiver),
  // modulo 2^64: the difference of both ends' sums, the total time of flight, is exact.
  std::uint64_t times_ns = 0;
  bool operator==(const ChannelTally&) const = default;
};

// Times on the device's own clock.
struct DeviceTally {
  std::int64_t steps = 0;
  std::array<KindTally, model::kTaskKinds> kinds{};  // of the cpu lane, copies included, and disk
  std::int64_t busy_cpu_ns = 0;
  std::int64_t busy_disk_ns = 0;
  std::int64_t origin_ns = 0;  // first start in step 0, including messages that it sends
  std::int64_t first_cpu_ns = 0;
  std::int64_t last_cpu_ns = 0;
  // For the second half of the steps: how long cpu tasks waited for loads after their lane and all
  // other dependencies were ready; and the loads.
  std::int64_t late_stall_ns = 0;
  std::int64_t late_disk_ns = 0;
  std::vector<ChannelTally> channels{};    // channels with transfers
  std::vector<std::int64_t> sampled_ns{};  // end of each step's last sample; not reported
  bool operator==(const DeviceTally&) const = default;
};

class Tally {
 public:
  explicit Tally(model::DeviceIndex device) : device_(device) {}
  // Reserves memory for `steps` steps of `graphs`: then add() allocates nothing.
  void reserve(std::size_t steps, std::initializer_list<const model::TaskGraph*> graphs);
  // Adds the records of the next step, as Runtime::step appends them.
  void add(const model::TaskGraph& graph, std::span<const TaskTime> records);
  [[nodiscard]] DeviceTally total() const;
  // Returns the bytes of the tally.
  [[nodiscard]] double allocated_bytes() const;

 private:
  struct Disk {  // of a step
    std::int64_t stall_ns = 0;
    std::int64_t busy_ns = 0;
  };
  void add_cpu(model::TaskKind kind, const TaskTime& time);
  void add_message(const model::Task& task, const TaskTime& time);
  void add_stalls(const model::TaskGraph& graph, std::span<const TaskTime> records);
  [[nodiscard]] ChannelTally& channel(model::DeviceIndex peer, bool sends);

  model::DeviceIndex device_;
  DeviceTally sum_;
  std::vector<Disk> disk_;            // by step; empty: nothing is loaded
  std::vector<std::int64_t> end_ns_;  // by task, of the present step
  bool began_ = false;                // the cpu lane has begun
  std::int64_t lane_end_ns_ = 0;      // of the cpu lane, before the current step
};

}  // namespace tandem::exec
