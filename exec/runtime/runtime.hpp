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
#include "exec/transport/transport.hpp"
#include "model/task_graph.hpp"

namespace tandem::exec {

struct RuntimeOptions {
  model::DeviceIndex device = 0;
  bool may_spin = false;  // before blocking in a wait; never on an emulated device
  std::chrono::milliseconds patience{600'000};  // for one message
};

// Chooses the next token from the logits of the last lm_head.
using SampleToken = std::function<std::int32_t(std::span<const float> logits)>;

class Runtime {
 public:
  // Everything given outlives the runtime. `transport` may be null where no graph has channels.
  Runtime(Compute& compute, Transport* transport, Pacer& pacer, const RuntimeOptions& options);
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
  // No allocation but `log`'s. Throws Error: a peer, a transfer, or cancel()'s reason; then the
  // runtime and its transport are dead.
  std::int32_t step(std::int32_t step, const model::TaskGraph& graph, const SampleToken& sample,
                    TimeLog& log);

  // Makes the present and every future step() throw Error(reason). Any thread.
  void cancel(const std::string& reason) noexcept;

  // Payloads on their way in or out, part of `buffers`.
  [[nodiscard]] double allocated_bytes() const;
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
  void capture(const model::Task& task, OutgoingLane& lane, std::int32_t position);
  void deliver(const model::Task& task, IncomingLane& lane, std::int32_t position);
  static void append_transfers(std::int32_t step, const Shape& shape, TimeLog& log);

  Compute* compute_;
  Transport* transport_;
  Pacer* pacer_;
  RuntimeOptions options_;
  std::map<std::shared_ptr<const char>, Shape> shapes_;  // by TaskGraph::shape
  double bytes_sent_ = 0.0;

  std::mutex mutex_;                     // of the lanes' maps, for cancel()
  std::atomic<bool> cancelled_ = false;  // written under the mutex
  std::string reason_;
  std::map<model::DeviceIndex, std::unique_ptr<OutgoingLane>> outgoing_;
  std::map<model::DeviceIndex, std::unique_ptr<IncomingLane>> incoming_;
};

}  // namespace tandem::exec
