#pragma once

// Executes one device's part of task graphs: its cpu lane on the calling thread, its channels
// through a transport. Knows neither strategies nor processes.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "exec/compute.hpp"
#include "exec/emulation/pacer.hpp"
#include "exec/runtime/lanes.hpp"
#include "exec/runtime/schedule.hpp"
#include "exec/runtime/time_log.hpp"
#include "exec/streaming/disk_lane.hpp"
#include "exec/transport/activity.hpp"
#include "exec/transport/transport.hpp"
#include "model/memory.hpp"
#include "model/task_graph.hpp"

namespace tandem::exec {

struct RuntimeOptions {
  model::DeviceIndex device = 0;
  bool may_spin = false;   // before blocking in a wait; never on an emulated device
  double disk_rate = 0.0;  // bytes a second of an emulated disk; 0: real
  // What all graphs declare: channels get their room from it at once; null: from each graph as it
  // is prepared. Outlives the runtime.
  const model::DeviceStorage* storage = nullptr;
  Activity* activity = nullptr;  // told what the steps do; outlives the runtime, may be null
};

// Chooses the next token from the logits of the last lm_head.
using SampleToken = std::function<std::int32_t(std::span<const float> logits)>;

class Runtime {
 public:
  // Everything given outlives the runtime. `transport` may be null where no graph has channels,
  // `weights` where none loads.
  Runtime(Compute& compute, Transport* transport, BlockLoader* weights, Pacer& pacer,
          const RuntimeOptions& options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Works out the schedule of `graph` and of what it is advanced to, and makes room for it. Throws
  // Error if this device cannot execute the graph.
  void prepare(const model::TaskGraph& graph);
  // Frees what prepare() worked out, for a graph that will not be executed again.
  void forget(const model::TaskGraph& graph) { shapes_.erase(graph.shape()); }

  // Executes this device's tasks of one step of a prepared graph; returns when they are done and
  // all payloads are sent. Returns the token that it sampled, or -1 if the step samples elsewhere.
  // Tokens of the rows must have been set in the Compute of a device that embeds. Appends to `log`.
  // `next`: the graph of the step that comes after this one (only its shape counts), whose first
  // weights may be loaded meanwhile; null if none comes, or it is not known.
  // No allocation but `log`'s. Throws Error: a peer, a transfer, the disk, or cancel()'s reason;
  // then the runtime and its transport are dead.
  std::int32_t step(std::int32_t step, const model::TaskGraph& graph, const model::TaskGraph* next,
                    const SampleToken& sample, TimeLog& log);
  // No load starts before `when`, on an emulated disk.
  void disk_available(Clock::time_point when);

  // Makes the present and every future step() throw Error(reason). Any thread.
  void cancel(const std::string& reason) noexcept;

  // Payloads on their way in or out, part of `buffers`.
  [[nodiscard]] double allocated_bytes() const;
  // How far the real disk was behind an emulated one, at most.
  [[nodiscard]] double disk_late_s() const { return disk_ ? disk_->max_late_s() : 0.0; }
  // Payload bytes sent so far.
  [[nodiscard]] double bytes_sent() const { return bytes_sent_; }
  void forget_bytes_sent() { bytes_sent_ = 0.0; }
  // Records that a step of this graph appends.
  [[nodiscard]] std::size_t records(const model::TaskGraph& graph) const;

 private:
  struct Shape {
    Schedule schedule;
    std::vector<OutgoingLane*> outgoing;  // of the schedule's channels
    std::vector<IncomingLane*> incoming;
  };
  [[nodiscard]] const Shape& shape_of(const model::TaskGraph& graph) const;
  template <class Lane>
  void attach(std::vector<ChannelSchedule>& channels, std::vector<Lane*>& used,
              std::map<model::DeviceIndex, std::unique_ptr<Lane>>& lanes);
  std::int32_t run(std::int32_t step, const model::TaskGraph& graph, const Shape& shape,
                   const SampleToken& sample, TimeLog& log);
  void prepare_loads(const model::TaskGraph& graph, DiskSchedule& disk);
  std::int32_t execute(const model::TaskGraph& graph, const model::Task& task,
                       const SampleToken& sample);
  [[nodiscard]] Pacer::Interval capture(const model::Task& task, OutgoingLane& lane,
                                        const ChannelSchedule& channel, std::int32_t position);
  [[nodiscard]] Pacer::Interval deliver(const model::Task& task, IncomingLane& lane,
                                        const ChannelSchedule& channel, std::int32_t position);
  void bind(std::int32_t load);
  static void append_transfers(std::int32_t step, const Shape& shape, TimeLog& log);
  void append_loads(std::int32_t step, const DiskSchedule& disk, TimeLog& log) const;

  Compute* compute_;
  Transport* transport_;
  BlockLoader* weights_;
  Pacer* pacer_;
  RuntimeOptions options_;
  Activity unasked_;                                     // where nobody asks
  Activity* activity_;                                   // the options' one, or that
  std::map<std::shared_ptr<const char>, Shape> shapes_;  // by TaskGraph::shape
  double bytes_sent_ = 0.0;

  std::mutex mutex_;                     // of the lanes' maps, for cancel()
  std::atomic<bool> cancelled_ = false;  // written under the mutex
  std::string reason_;
  std::map<model::DeviceIndex, std::unique_ptr<OutgoingLane>> outgoing_;
  std::map<model::DeviceIndex, std::unique_ptr<IncomingLane>> incoming_;
  std::unique_ptr<DiskLane> disk_;  // null: no graph loads
};

}  // namespace tandem::exec
