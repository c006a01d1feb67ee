#include "exec/runtime/runtime.hpp"

#include <algorithm>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"
#include "model/graph/announcement.hpp"
#include "model/graph/work.hpp"

namespace tandem::exec {
namespace {

std::int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// Says so while it lives.
class WaitsFor {
 public:
  WaitsFor(Activity& activity, model::DeviceIndex peer) : activity_(&activity) {
    activity_->wait_for(peer);
  }
  WaitsFor(const WaitsFor&) = delete;
  WaitsFor& operator=(const WaitsFor&) = delete;
  ~WaitsFor() { activity_->wait_for(Activity::kNobody); }

 private:
  Activity* activity_;
};

}  // namespace

Runtime::Runtime(Compute& compute, Transport* transport, BlockLoader* weights, Pacer& pacer,
                 const RuntimeOptions& options)
    : compute_(&compute),
      transport_(transport),
      weights_(weights),
      pacer_(&pacer),
      options_(options),
      activity_(options.activity != nullptr ? options.activity : &unasked_) {}

Runtime::~Runtime() {
  // A lane that is failing still calls cancel(), which visits every lane.
  if (disk_) disk_->stop();
  if (!flights_.empty()) cancel("the run is over");  // a lane may wait for another's turn
  for (const auto& [peer, channel] : outgoing_) {
    for (const auto& lane : channel.lanes) lane->stop();
  }
  for (const auto& [peer, channel] : incoming_) {
    for (const auto& lane : channel.lanes) lane->stop();
  }
}

void Runtime::disk_available(Clock::time_point when) {
  if (disk_) disk_->available(when);
}

std::size_t Runtime::place_of(std::int32_t step) const {
  return static_cast<std::size_t>(step % options_.steps);
}

const Runtime::Lanes& Runtime::lanes_of(const Flight& flight) const {
  return flight.prepared->lanes[place_of(flight.step)];
}

template <class Body>
auto Runtime::guarded(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& error) {
    pacer_->wait();  // whatever it failed at, others may compute
    cancel(model::describe(error));
    // The first failure is the cause; this one may be its consequence.
    const std::lock_guard lock(mutex_);
    throw Error(reason_);
  }
}

std::int32_t Runtime::step(std::int32_t step, const model::TaskGraph& graph,
                           const model::TaskGraph* next, const SampleToken& sample, TimeLog& log) {
  return guarded([&] {
    require(flights_.empty(), "Runtime: one step, while others are in flight");
    const PreparedStep& prepared = prepared_of(graph);
    if (disk_)
      disk_->begin(prepared.programs.disk,
                   next == nullptr ? nullptr : &prepared_of(*next).programs.disk);
    whole_.step = step;
    whole_.graph = &graph;
    whole_.batch = graph.batch();
    whole_.prepared = &prepared;
    whole_.entered = false;
    whole_.log.swap(log);
    enter(whole_);
    const std::int32_t token = run(whole_, 0, prepared.programs.actions.size(), sample);
    drain(whole_);
    whole_.log.swap(log);
    return token;
  });
}

std::int32_t Runtime::begin(std::int32_t step, const model::TaskGraph& graph,
                            const SampleToken& sample) {
  return guarded([&] {
    require(!disk_, "Runtime: steps in flight load nothing");
    require(static_cast<std::int32_t>(flights_.size()) < options_.steps,
            "Runtime: more steps in flight than there is room for");
    Flight& flight = flights_.emplace_back(Flight{
        .step = step, .graph = &graph, .batch = graph.batch(), .prepared = &prepared_of(graph)});
    last_ = &flight;
    const LanePrograms& programs = flight.prepared->programs;
    flight.log.reserve(programs.records);
    enter(flight);
    flight.finished = programs.epilogue == programs.actions.size();
    return run(flight, 0, programs.epilogue, sample);
  });
}

std::optional<Clock::time_point> Runtime::await_finish(Clock::time_point deadline) {
  return guarded([&]() -> std::optional<Clock::time_point> {
    const auto flight = std::ranges::find(flights_, false, &Flight::finished);
    require(flight != flights_.end(), "Runtime: a step whose finish is to come");
    const LanePrograms& programs = flight->prepared->programs;
    Clock::time_point there{};
    for (std::size_t i = programs.epilogue; i < programs.actions.size(); ++i) {
      const Action& action = programs.actions[i];
      if (action.kind != Action::Kind::deliver) continue;
      IncomingLane& lane = *lanes_of(*flight).incoming[static_cast<std::size_t>(action.channel)];
      const WaitsFor waits(*activity_, lane.peer());
      const auto arrival = lane.await_arrival(action.position, deadline);
      if (!arrival) return std::nullopt;
      there = std::max(there, *arrival);
    }
    return there;
  });
}

std::int32_t Runtime::finish(const SampleToken& sample) {
  return guarded([&] {
    const auto flight = std::ranges::find(flights_, false, &Flight::finished);
    require(flight != flights_.end(), "Runtime: a step whose finish is to come");
    last_ = &*flight;
    const LanePrograms& programs = flight->prepared->programs;
    const std::int32_t token = run(*flight, programs.epilogue, programs.actions.size(), sample);
    flight->finished = true;
    return token;
  });
}

std::optional<Runtime::Done> Runtime::take_done(bool all) {
  if (flights_.empty()) return std::nullopt;
  if (!all && static_cast<std::int32_t>(flights_.size()) < options_.steps) return std::nullopt;
  return guarded([&] {
    Flight& first = flights_.front();
    require(first.finished, "Runtime: more steps in flight than there is room for");
    drain(first);
    std::optional<Done> done =
        Done{.step = first.step, .graph = first.graph, .log = std::move(first.log)};
    if (last_ == &first) last_ = nullptr;
    flights_.pop_front();
    return done;
  });
}

template <class Lane, class Other>
void Runtime::begin_lanes(const std::vector<ChannelProgram>& channels,
                          const std::vector<Lane*>& used, const std::vector<Other*>& others,
                          Channels<Lane>& lanes, std::int32_t step) {
  for (std::size_t c = 0; c < used.size(); ++c) {
    Channel<Lane>& channel = lanes.at(channels[c].peer);
    // The step before the last one in this lane has been drained.
    Lane* const before = channel.last == used[c] ? nullptr : channel.last;
    used[c]->begin(step, channels[c], others, before);
    channel.last = used[c];
  }
}

void Runtime::enter(const Flight& flight) {
  const LanePrograms& programs = flight.prepared->programs;
  const Lanes& lanes = lanes_of(flight);
  begin_lanes(programs.outgoing, lanes.outgoing, lanes.incoming, outgoing_, flight.step);
  begin_lanes(programs.incoming, lanes.incoming, lanes.outgoing, incoming_, flight.step);
}

std::optional<Pacer::TimePoint> Runtime::enter_cache(Flight& flight) {
  if (std::exchange(flight.entered, true)) return std::nullopt;
  pacer_->begin();
  const double copied = compute_->begin(flight.batch, flight.prepared->cached);
  if (copied == 0.0) return std::nullopt;
  return pacer_->end_cache_copy(options_.device, model::Bytes{copied}).start;
}

std::int32_t Runtime::run(Flight& flight, std::size_t first, std::size_t last,
                          const SampleToken& sample) {
  const LanePrograms& programs = flight.prepared->programs;
  const Lanes& lanes = lanes_of(flight);
  std::int32_t token = -1;
  activity_->enter(Phase::computing, Activity::kNobody, programs.actions.size());
  const auto record = [&](model::TaskIndex task, const Pacer::Interval& interval) {
    activity_->compute(interval.end - interval.start);
    flight.log.push_back({.step = flight.step,
                          .task = task,
                          .start_ns = nanoseconds(interval.start),
                          .end_ns = nanoseconds(interval.end)});
  };
  for (std::size_t i = first; i < last; ++i) {
    const Action& action = programs.actions[i];
    activity_->advance(i);
    if (cancelled_) throw Error("cancelled");  // guarded() knows the reason
    const model::Task& task = flight.graph->tasks()[static_cast<std::size_t>(action.task)];
    const auto channel = static_cast<std::size_t>(action.channel);
    switch (action.kind) {
      case Action::Kind::run: {
        const std::optional<Pacer::TimePoint> copies = enter_cache(flight);
        pacer_->begin();
        token = std::max(token, execute(flight.batch, task, sample));
        Pacer::Interval interval = pacer_->end(flight.batch, task);
        if (copies) interval.start = *copies;
        if (action.event >= 0) disk_->done(action.event, interval.end);
        record(action.task, interval);
        break;
      }
      case Action::Kind::capture:
        record(~action.task, capture(flight.batch, task, *lanes.outgoing[channel],
                                     programs.outgoing[channel], action.position));
        break;
      case Action::Kind::deliver:
        if (task.output.kind == model::BufferKind::key_value)
          static_cast<void>(enter_cache(flight));
        record(~action.task, deliver(flight.batch, task, *lanes.incoming[channel],
                                     programs.incoming[channel], action.position));
        break;
      case Action::Kind::await:
        bind(action.position);
        break;
    }
  }
  static_cast<void>(enter_cache(flight));  // of a device without tasks
  if (last == programs.actions.size()) activity_->finish_step(flight.batch.rows());
  pacer_->settle();
  pacer_->wait();
  return token;
}

void Runtime::drain(Flight& flight) {
  const Lanes& lanes = lanes_of(flight);
  for (OutgoingLane* lane : lanes.outgoing) {
    const WaitsFor waits(*activity_, lane->peer());
    lane->finish();
  }
  for (IncomingLane* lane : lanes.incoming) lane->finish();
  if (!std::exchange(flight.entered, true)) compute_->pass(flight.batch);
  bytes_sent_ += flight.prepared->programs.relayed_bytes;
  if (disk_) disk_->finish();
  append_transfers(flight);
  append_loads(flight.step, flight.prepared->programs.disk, flight.log);
}

// The token if it sampled one, else -1.
std::int32_t Runtime::execute(const model::Batch& batch, const model::Task& task,
                              const SampleToken& sample) {
  if (task.kind == model::TaskKind::sample) {
    return sample(compute_->scores(batch, task));
  }
  if (task.kind == model::TaskKind::release) {
    compute_->unbind(task);
  } else {
    compute_->execute(batch, task);
  }
  return -1;
}

Pacer::Interval Runtime::capture(const model::Batch& batch, const model::Task& task,
                                 OutgoingLane& lane, const ChannelProgram& channel,
                                 std::int32_t position) {
  const WaitsFor waits(*activity_, lane.peer());
  pacer_->wait();
  const ChannelMessage& message = channel.messages[static_cast<std::size_t>(position)];
  const bool lies = message.lies_at != nullptr;
  const std::span<std::byte> payload = lies ? std::span<std::byte>() : lane.room(position);
  MessageCopy copy{.kind = model::TaskKind::capture,
                   .device = options_.device,
                   .size = model::copy_size(model::TaskKind::capture, task),
                   .computing_thread = channel.by_computing_thread()};
  pacer_->begin();
  // The announcement's contents came by the control connection: only its bytes pass here.
  if (model::is_announcement(task)) {
    std::ranges::fill(payload, std::byte{0});
  } else if (!lies) {
    compute_->capture(batch, task, payload);
  }
  bytes_sent_ += static_cast<double>(message.bytes);
  if (!pacer_->emulates()) {
    lane.send(position, Clock::now());
    return pacer_->end_copy(copy);
  }
  // On an emulated link another thread sends, once this lane is due, sending included.
  const Pacer::Interval interval = pacer_->end_copy(copy);
  pacer_->settle();
  lane.send(position, pacer_->due());
  return interval;
}

Pacer::Interval Runtime::deliver(const model::Batch& batch, const model::Task& task,
                                 IncomingLane& lane, const ChannelProgram& channel,
                                 std::int32_t position) {
  const WaitsFor waits(*activity_, lane.peer());
  const Clock::time_point asked = Clock::now();
  pacer_->wait();
  const std::span<const std::byte> payload = lane.payload(position);
  MessageCopy copy{.kind = model::TaskKind::deliver,
                   .device = options_.device,
                   .size = model::copy_size(model::TaskKind::deliver, task),
                   .computing_thread = channel.by_computing_thread() && !channel.passes_on};
  if (!lane.threaded()) copy.since = std::max(asked, lane.arrival(position));
  pacer_->available(lane.arrival(position));
  pacer_->begin();
  if (!model::is_announcement(task)) compute_->deliver(batch, task, payload);
  lane.delivered(position);
  return pacer_->end_copy(copy);
}

void Runtime::bind(std::int32_t load) {
  const WaitsFor waits(*activity_, options_.device);
  pacer_->wait();
  compute_->bind(disk_->await(load));
  pacer_->available(disk_->times(load).end);
}

void Runtime::append_transfers(Flight& flight) const {
  const LanePrograms& programs = flight.prepared->programs;
  const Lanes& lanes = lanes_of(flight);
  const auto append = [&](model::TaskIndex task, Clock::time_point start, Clock::time_point end) {
    flight.log.push_back({.step = flight.step,
                          .task = task,
                          .start_ns = nanoseconds(start),
                          .end_ns = nanoseconds(end)});
  };
  for (std::size_t c = 0; c < lanes.outgoing.size(); ++c) {
    const auto& messages = programs.outgoing[c].messages;
    for (std::size_t m = 0; m < messages.size(); ++m) {
      const OutgoingLane::Times& times = lanes.outgoing[c]->times(static_cast<std::int32_t>(m));
      append(messages[m].task, times.start, times.sent);
    }
  }
  for (std::size_t c = 0; c < lanes.incoming.size(); ++c) {
    const auto& messages = programs.incoming[c].messages;
    for (std::size_t m = 0; m < messages.size(); ++m) {
      const Clock::time_point arrived = lanes.incoming[c]->arrival(static_cast<std::int32_t>(m));
      append(messages[m].task, arrived, arrived);
    }
  }
}

void Runtime::append_loads(std::int32_t step, const DiskProgram& disk, TimeLog& log) const {
  for (std::size_t i = 0; i < disk.loads.size(); ++i) {
    const DiskLane::Times& times = disk_->times(static_cast<std::int32_t>(i));
    log.push_back({.step = step,
                   .task = disk.loads[i].task,
                   .start_ns = nanoseconds(times.start),
                   .end_ns = nanoseconds(times.end)});
  }
}

void Runtime::cancel(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!cancelled_) {
      cancelled_ = true;
      reason_ = reason;
    }
    if (transport_ != nullptr) transport_->cancel(reason_);
    for (const auto& [peer, channel] : outgoing_) {
      for (const auto& lane : channel.lanes) lane->cancel(reason_);
    }
    for (const auto& [peer, channel] : incoming_) {
      for (const auto& lane : channel.lanes) lane->cancel(reason_);
    }
    if (disk_) disk_->cancel(reason_);
  } catch (...) {
    // Locking a sound mutex and copying a short text do not fail; nothing is left to do if they do.
    return;
  }
}

}  // namespace tandem::exec
