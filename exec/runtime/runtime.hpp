#pragma once

// Executes what one device has to do of task graphs: its cpu lane on the calling thread, its
// channels through a transport. A runtime knows neither strategies nor processes.

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
  // What all graphs declare: channels get their room from it at once; null: from each graph as it
  // is prepared, while no step is in flight. Outlives the runtime.
  const model::DeviceStorage* storage = nullptr;
  std::int32_t steps = 1;  // at most so many in flight; channels have room for all of them
  // Called on a lane's thread with the reason of a failure that ends all: between steps in flight
  // nobody else may see it.
  std::function<void(const std::string& reason)> on_failure{};
  Activity* activity = nullptr;  // told what the steps do; outlives the runtime, may be null
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
  // Everything given outlives the runtime. `transport` may be null where no graph has channels,
  // `weights` where none loads.
  Runtime(Compute& compute, Transport* transport, BlockLoader* weights, Pacer& pacer,
          const RuntimeOptions& options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Works out the lane programs of `graph` and of what it is advanced to, and makes room for it.
  // Throws Error if this device cannot execute the graph.
  void prepare(const model::TaskGraph& graph);
  [[nodiscard]] bool is_prepared(const model::TaskGraph& graph) const {
    return prepared_.contains(graph.structure());
  }
  // Frees what prepare() worked out, for a graph that will not be executed again.
  void forget(const model::TaskGraph& graph) { prepared_.erase(graph.structure()); }

  // Executes this device's tasks of one step of a prepared graph; returns when they are done and
  // all payloads are sent. Returns the token that it sampled, or -1 if the step samples elsewhere.
  // Tokens of the rows must have been set in the Compute of a device that embeds. Appends to `log`.
  // `next`: the graph of the step that comes after this one (only its structure counts), whose
  // first weights may be loaded meanwhile; null if none comes, or it is not known. No allocation
  // but `log`'s. Throws Error: a peer, a transfer, the disk, or cancel()'s reason; then the runtime
  // and its transport are dead.
  std::int32_t step(std::int32_t step, const model::TaskGraph& graph, const model::TaskGraph* next,
                    const SampleToken& sample, TimeLog& log);

  // begin() and finish() execute a step in two halves, between which other steps may begin, where
  // several may be in flight and none loads. begin() executes all but the epilogue
  // (TaskGraph::begin_epilogue) and does not wait for payloads to be sent; `graph` stays until
  // take_done() has returned the step. Returns the token as step() does. Throws logic_error beyond
  // the steps that may be in flight.
  std::int32_t begin(std::int32_t step, const model::TaskGraph& graph, const SampleToken& sample);
  // Whether the step that began last has an epilogue to come.
  [[nodiscard]] bool has_unfinished_last() const { return !last_->finished; }
  // Returns when the messages were there that the first epilogue to come waits for; nothing if they
  // were not before `deadline`.
  [[nodiscard]] std::optional<Clock::time_point> await_finish(Clock::time_point deadline);
  // Executes the first epilogue to come, waiting for its messages.
  std::int32_t finish(const SampleToken& sample);
  // What a step in flight left.
  struct Done {
    std::int32_t step = 0;
    const model::TaskGraph* graph = nullptr;
    TimeLog log;
  };
  // The records so far of the cpu lane in the step begun or finished last, and its graph.
  [[nodiscard]] std::span<const TaskTime> last_records() const { return last_->log; }
  [[nodiscard]] const model::TaskGraph& last_graph() const { return *last_->graph; }
  // Takes out the first step in flight, once it is finished and all its payloads have passed, which
  // is waited for. Returns nothing if no step is left, or, unless `all`, if another one may be
  // begun.
  [[nodiscard]] std::optional<Done> take_done(bool all);

  // No load starts before `when`, on an emulated disk.
  void disk_available(Clock::time_point when);

  // Makes the present and every future step() throw Error(reason). Any thread.
  void cancel(const std::string& reason) noexcept;

  // Bytes of the room for payloads on their way in or out, which count as `buffers`.
  [[nodiscard]] double allocated_bytes() const;
  // The most that the real disk was behind an emulated one.
  [[nodiscard]] double disk_late_s() const { return disk_ ? disk_->max_late_s() : 0.0; }
  // Bytes of payloads sent so far.
  [[nodiscard]] double bytes_sent() const { return bytes_sent_; }
  void forget_bytes_sent() { bytes_sent_ = 0.0; }
  // How many records a step of this graph appends.
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
    bool entered = false;  // its cache operations have taken effect
    bool finished = false;
    TimeLog log{};
  };
  // A channel's lanes, one for each step in flight, and which messages come before those of the
  // next step.
  template <class Lane>
  struct Channel {
    std::vector<std::unique_ptr<Lane>> lanes;
    Lane* last = nullptr;  // that a step began in
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
  // Lanes; then actions [first, last); then until all payloads have passed.
  void enter(const Flight& flight);
  std::int32_t run(Flight& flight, std::size_t first, std::size_t last, const SampleToken& sample);
  void drain(Flight& flight);
  // What `body` returns; after a failure everything is cancelled.
  template <class Body>
  auto guarded(const Body& body) -> decltype(body());
  // Says of weights that travel where they lie and where they visit.
  void place_weights(const model::TaskGraph& graph, LanePrograms& programs);
  void prepare_loads(const model::TaskGraph& graph, DiskProgram& disk);
  std::int32_t execute(const model::Batch& batch, const model::Task& task,
                       const SampleToken& sample);
  // The step's place in the cache, before its first task: when the copies began that this took, if
  // it took any.
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
  Activity unasked_;                                              // where nobody asks
  Activity* activity_;                                            // the options' one, or that
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
