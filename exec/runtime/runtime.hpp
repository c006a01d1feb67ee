#pragma once

// Executes one device's part of task graphs: its cpu lane on the calling thread, its channels
// through a transport. Independent of strategies and processes.

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/compute/compute.hpp"
#include "exec/compute/shortlist.hpp"
#include "exec/emulation/pacer.hpp"
#include "exec/runtime/disk_lane.hpp"
#include "exec/runtime/lane_programs.hpp"
#include "exec/runtime/lanes.hpp"
#include "exec/runtime/time_log.hpp"
#include "exec/transport/activity.hpp"
#include "exec/transport/transport.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::exec {

struct RuntimeOptions {
  model::DeviceIndex device = 0;
  bool may_spin = false;   // before blocking in a wait; never on an emulated device
  double disk_rate = 0.0;  // bytes a second of an emulated disk; 0: real
  // Declarations of all graphs, from which channels allocate at once; null: from each graph as it
  // is prepared, while no step is in flight. Outlives the runtime.
  const model::DeviceStorage* storage = nullptr;
  std::int32_t steps = 1;  // most steps in flight; channels have memory for all of them
  // Called on a lane's thread with the reason of a fatal failure, which no call might report
  // between steps in flight.
  std::function<void(const std::string& reason)> on_failure{};
  Activity* activity =
      nullptr;  // receives the progress of steps; outlives the runtime, may be null
};

// Chooses the next token from the logits of a row, or the best of them.
using SampleToken = std::function<std::int32_t(const Scores& scores)>;

// One step after another:
//   runtime.prepare(graph);                          // once for a graph's structure
//   runtime.step(0, graph, &next, sample, log);      // executes all of it
// or several in flight:
//   runtime.begin(0, graph, sample);                 // all but its epilogue
//   runtime.begin(1, other, sample);
//   runtime.finish(sample);                          // the rest of step 0
//   runtime.take_done(false);                        // its records
class Runtime {
 public:
  // All arguments outlive the runtime. `transport` may be null if no graph has channels, `weights`
  // if none loads.
  Runtime(Compute& compute, Transport* transport, BlockLoader* weights, Pacer& pacer,
          const RuntimeOptions& options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Makes the lane programs of `graph` and of the graphs it is advanced to, and allocates for them.
  // Throws Error if this device cannot execute the graph.
  void prepare(const model::TaskGraph& graph);
  [[nodiscard]] bool is_prepared(const model::TaskGraph& graph) const {
    return prepared_.contains(graph.structure());
  }
  // Frees the result of prepare() for a graph that will not be executed again.
  void forget(const model::TaskGraph& graph) { prepared_.erase(graph.structure()); }

  // Executes this device's tasks of one step of a prepared graph; returns when they are done and
  // all payloads are sent. Returns the token that it sampled, or -1 if another device samples. On a
  // device that embeds, tokens of the rows must have been set in the Compute. Appends to `log`.
  // `next`: the graph of the following step (only its structure counts), whose first weights may be
  // loaded meanwhile; null if there is none, or it is unknown. Allocates for `log` only. Throws
  // Error for a peer, a transfer, the disk, or cancel()'s reason; then the runtime and its
  // transport are dead.
  std::int32_t step(std::int32_t step, const model::TaskGraph& graph, const model::TaskGraph* next,
                    const SampleToken& sample, TimeLog& log);

  // begin() and finish() execute a step in two parts, between which other steps may begin, if
  // several may be in flight and none loads. begin() executes all but the epilogue
  // (TaskGraph::begin_epilogue) and does not wait for payloads to be sent; `graph` stays until
  // take_done() has returned the step. Returns the token as step() does. Throws logic_error beyond
  // the allowed steps in flight.
  std::int32_t begin(std::int32_t step, const model::TaskGraph& graph, const SampleToken& sample);
  // Returns whether the step that began last has an outstanding epilogue.
  [[nodiscard]] bool has_unfinished_last() const { return !last_->finished; }
  // Returns when the messages of the first outstanding epilogue arrived; nothing if they did not by
  // `deadline`.
  [[nodiscard]] std::optional<Clock::time_point> await_finish(Clock::time_point deadline);
  // Executes the first outstanding epilogue, waiting for its messages.
  std::int32_t finish(const SampleToken& sample);
  // The results of a step in flight.
  struct Done {
    std::int32_t step = 0;
    const model::TaskGraph* graph = nullptr;
    TimeLog log;
  };
  // Returns the records so far of the cpu lane in the step begun or finished last, and its graph.
  [[nodiscard]] std::span<const TaskTime> last_records() const { return last_->log; }
  [[nodiscard]] const model::TaskGraph& last_graph() const { return *last_->graph; }
  // Removes the first step in flight once it is finished and all its payloads have been sent,
  // waiting for both. Returns nothing if no step is left or, unless `all`, if another one may
  // begin.
  [[nodiscard]] std::optional<Done> take_done(bool all);

  // On an emulated disk: no load starts before `when`.
  void disk_available(Clock::time_point when);

  // Makes the current and every future step() throw Error(reason). Any thread.
  void cancel(const std::string& reason) noexcept;

  // Returns the bytes for payloads in flight, which count as `buffers`.
  [[nodiscard]] double allocated_bytes() const;
  // Returns the largest delay of the real disk relative to an emulated one.
  [[nodiscard]] double disk_late_s() const { return disk_ ? disk_->max_late_s() : 0.0; }
  // Returns the bytes of payloads sent so far.
  [[nodiscard]] double bytes_sent() const { return bytes_sent_; }
  void forget_bytes_sent() { bytes_sent_ = 0.0; }
  // Returns the number of records that a step of this graph appends.
  [[nodiscard]] std::size_t records(const model::TaskGraph& graph) const;

 private:
  struct Lanes {                          // of one step
    std::vector<OutgoingLane*> outgoing;  // of the channel programs
    std::vector<IncomingLane*> incoming;
  };
  struct PreparedStep {
    LanePrograms programs;
    model::Range cached{};     // rows of the batch
    std::vector<Lanes> lanes;  // for each step in flight
  };
  struct Flight {
    std::int32_t step = 0;
    const model::TaskGraph* graph = nullptr;
    model::Batch batch{};
    const PreparedStep* prepared = nullptr;
    bool entered = false;  // its cache operations have been executed
    bool finished = false;
    TimeLog log{};
  };
  // A channel's lanes, one for each step in flight, and the lane whose messages come before those
  // of the next step.
  template <class Lane>
  struct Channel {
    std::vector<std::unique_ptr<Lane>> lanes;
    Lane* last = nullptr;  // of the step that began last
  };
  template <class Lane>
  using Channels = std::map<model::DeviceIndex, Channel<Lane>>;
  [[nodiscard]] const PreparedStep& prepared_of(const model::TaskGraph& graph) const;
  template <class Lane>
  void attach(const std::vector<ChannelProgram>& channels, std::size_t place,
              std::vector<Lane*>& used, Channels<Lane>& lanes);
  [[nodiscard]] std::size_t place_of(std::int32_t step) const;
  [[nodiscard]] const Lanes& lanes_of(const Flight& flight) const;
  template <class Lane, class Other>
  void begin_lanes(const std::vector<ChannelProgram>& channels, const std::vector<Lane*>& used,
                   const std::vector<Other*>& others, Channels<Lane>& lanes, std::int32_t step);
  // Enters the lanes; runs actions [first, last); waits until all payloads have passed.
  void enter(const Flight& flight);
  std::int32_t run(Flight& flight, std::size_t first, std::size_t last, const SampleToken& sample);
  void drain(Flight& flight);
  // Returns the result of `body`; cancels everything after a failure.
  template <class Body>
  auto guarded(const Body& body) -> decltype(body());
  // Sets the memory of gathered weights at both ends.
  void place_weights(const model::TaskGraph& graph, LanePrograms& programs);
  void prepare_loads(const model::TaskGraph& graph, DiskProgram& disk);
  std::int32_t execute(const model::Batch& batch, const model::Task& task,
                       const SampleToken& sample);
  // Enters the step into the cache, before its first task. Returns the start of copies, if there
  // were any.
  std::optional<Pacer::TimePoint> enter_cache(Flight& flight);
  [[nodiscard]] Pacer::Interval capture(const model::Batch& batch, const model::Task& task,
                                        OutgoingLane& lane, const ChannelProgram& channel,
                                        std::int32_t position);
  [[nodiscard]] Pacer::Interval deliver(const model::Batch& batch, const model::Task& task,
                                        IncomingLane& lane, const ChannelProgram& channel,
                                        std::int32_t position);
  void bind(std::int32_t load);
  void append_transfers(Flight& flight) const;
  void append_loads(std::int32_t step, const DiskProgram& disk, TimeLog& log) const;

  Compute* compute_;
  Transport* transport_;
  BlockLoader* weights_;
  Pacer* pacer_;
  RuntimeOptions options_;
  Activity unasked_;                                              // if the options have none
  Activity* activity_;                                            // the options' one, or unasked_
  std::map<std::shared_ptr<const char>, PreparedStep> prepared_;  // by TaskGraph::structure
  double bytes_sent_ = 0.0;
  Flight whole_;               // that step() executes
  std::list<Flight> flights_;  // begun and not taken, by step
  Flight* last_ = nullptr;     // begun or finished last

  std::mutex mutex_;                     // of the lanes' maps, for cancel()
  std::atomic<bool> cancelled_ = false;  // written under the mutex
  std::string reason_;
  Channels<OutgoingLane> outgoing_;
  Channels<IncomingLane> incoming_;
  std::unique_ptr<DiskLane> disk_;  // null: no graph loads
};

}  // namespace tandem::exec
