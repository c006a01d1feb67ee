#pragma once

// What a device's tasks of a run add up to: all that a result says of them, in a few numbers, where
// a record of each task would grow with every token.

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

// The transfers of one channel, as one of its ends saw them.
struct ChannelTally {
  model::DeviceIndex peer = 0;
  bool sends = false;
  std::int64_t count = 0;
  // Sum of when the channel took each (sender), or of when each arrived (receiver), modulo 2^64:
  // the difference of both ends' sums, which is the sum of all flights, is exact.
  std::uint64_t times_ns = 0;
  bool operator==(const ChannelTally&) const = default;
};

// On the device's own clock.
struct DeviceTally {
  std::int64_t steps = 0;
  std::array<KindTally, model::kTaskKinds> kinds{};  // of the cpu lane, copies included, and disk
  std::int64_t busy_cpu_ns = 0;
  std::int64_t busy_disk_ns = 0;
  std::int64_t origin_ns = 0;  // first start in step 0, of a message that it sends included
  std::int64_t first_cpu_ns = 0;
  std::int64_t last_cpu_ns = 0;
  // Of the second half of the steps: how long cpu tasks waited for loads beyond their lane and
  // everything else that they depend on; and the loads.
  std::int64_t late_stall_ns = 0;
  std::int64_t late_disk_ns = 0;
  std::vector<ChannelTally> channels{};    // those that carried something
  std::vector<std::int64_t> sampled_ns{};  // end of each step's last sample; stays on the device
  bool operator==(const DeviceTally&) const = default;
};

class Tally {
 public:
  explicit Tally(model::DeviceIndex device) : device_(device) {}
  // Makes room for `steps` steps of `graphs`: then add() allocates nothing.
  void reserve(std::size_t steps, std::initializer_list<const model::TaskGraph*> graphs);
  // Adds the records of the next step, as Runtime::step appends them.
  void add(const model::TaskGraph& graph, std::span<const TaskTime> records);
  [[nodiscard]] DeviceTally total() const;
  // Bytes that the tally holds.
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
  bool began_ = false;                // the cpu lane has
  std::int64_t lane_end_ns_ = 0;      // of the cpu lane, before the present step
};

}  // namespace tandem::exec
