#include "exec/runtime/runtime.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "model/error.hpp"
#include "model/work.hpp"

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
  for (const auto& [peer, lane] : outgoing_) lane->stop();
  for (const auto& [peer, lane] : incoming_) lane->stop();
}

void Runtime::prepare(const model::TaskGraph& graph) {
  if (shapes_.contains(graph.shape())) return;
  Shape shape;  // kept when nothing can fail any more
  shape.schedule = make_schedule(graph, options_.device);
  attach(shape.schedule.outgoing, shape.outgoing, outgoing_);
  attach(shape.schedule.incoming, shape.incoming, incoming_);
  if (!shape.schedule.disk.loads.empty()) prepare_loads(graph, shape.schedule.disk);
  shapes_.emplace(graph.shape(), std::move(shape));
}

void Runtime::prepare_loads(const model::TaskGraph& graph, DiskSchedule& disk) {
  require(weights_ != nullptr, "Runtime: the graph loads weights, but none are streamed");
  for (DiskLoad& load : disk.loads) {
    const model::Task& task = graph.tasks()[static_cast<std::size_t>(load.task)];
    load.block = weights_->find(task);
    load.bytes = model::work_of(compute_->transformer(), graph.batch(), task).bytes_disk;
  }
  const std::lock_guard lock(mutex_);
  if (cancelled_) throw Error(reason_);
  if (!disk_) {
    disk_ = std::make_unique<DiskLane>(
        *weights_,
        DiskLaneOptions{.rate = options_.disk_rate,
                        .on_failure = [this](const std::string& reason) { cancel(reason); }});
  }
  disk_->reserve(disk);
}

template <class Lane>
void Runtime::attach(std::vector<ChannelSchedule>& channels, std::vector<Lane*>& used,
                     std::map<model::DeviceIndex, std::unique_ptr<Lane>>& lanes) {
  decltype(LaneOptions::thread_time) thread_time;
  if (pacer_->emulates()) {
    thread_time = [this](model::TaskKind kind, std::size_t bytes) {
      return pacer_->message_time(options_.device, kind, model::Bytes{static_cast<double>(bytes)});
    };
  }
  for (const ChannelSchedule& channel : channels) {
    require(transport_ != nullptr, "Runtime: the graph has channels, but there is no transport");
    const std::lock_guard lock(mutex_);
    if (cancelled_) throw Error(reason_);
    std::unique_ptr<Lane>& lane = lanes[channel.peer];
    if (!lane) {
      lane = std::make_unique<Lane>(
          *transport_, channel.peer,
          LaneOptions{.may_spin = options_.may_spin,
                      .on_failure = [this](const std::string& reason) { cancel(reason); },
                      .thread_time = thread_time});
      if (options_.storage != nullptr) {
        const auto room =
            std::ranges::find_if(options_.storage->channels, [&](const model::ChannelRoom& one) {
              return one.peer == channel.peer && one.outgoing == std::is_same_v<Lane, OutgoingLane>;
            });
        require(room != options_.storage->channels.end(), "Runtime: the channel was declared");
        lane->declare(room->elements);
      }
    }
    lane->reserve(channel);
    used.push_back(lane.get());
  }
}

const Runtime::Shape& Runtime::shape_of(const model::TaskGraph& graph) const {
  const auto found = shapes_.find(graph.shape());
  require(found != shapes_.end(), "Runtime: the graph was not prepared");
  return found->second;
}

std::size_t Runtime::records(const model::TaskGraph& graph) const {
  return shape_of(graph).schedule.records;
}

void Runtime::disk_available(Clock::time_point when) {
  if (disk_) disk_->available(when);
}

std::int32_t Runtime::step(std::int32_t step, const model::TaskGraph& graph,
                           const model::TaskGraph* next, const SampleToken& sample, TimeLog& log) {
  try {
    if (disk_) {
      disk_->begin(shape_of(graph).schedule.disk,
                   next == nullptr ? nullptr : &shape_of(*next).schedule.disk);
    }
    return run(step, graph, shape_of(graph), sample, log);
  } catch (const std::exception& error) {
    pacer_->wait();  // whatever it failed at, others may compute
    cancel(error.what());
    // The first failure is the cause; this one may be its consequence.
    const std::lock_guard lock(mutex_);
    throw Error(reason_);
  }
}

std::int32_t Runtime::run(std::int32_t step, const model::TaskGraph& graph, const Shape& shape,
                          const SampleToken& sample, TimeLog& log) {
  const Schedule& schedule = shape.schedule;
  for (std::size_t c = 0; c < shape.outgoing.size(); ++c) {
    shape.outgoing[c]->begin(step, schedule.outgoing[c], shape.incoming);
  }
  for (std::size_t c = 0; c < shape.incoming.size(); ++c) {
    shape.incoming[c]->begin(step, schedule.incoming[c], shape.outgoing);
  }
  compute_->begin(graph.batch());
  std::int32_t token = -1;
  std::uint64_t done = 0;
  activity_->enter(Phase::computing, Activity::kNobody, schedule.actions.size());
  const auto record = [&](model::TaskIndex task, const Pacer::Interval& interval) {
    log.push_back({.step = step,
                   .task = task,
                   .start_ns = nanoseconds(interval.start),
                   .end_ns = nanoseconds(interval.end)});
  };
  for (const Action& action : schedule.actions) {
    activity_->advance(done++);
    if (cancelled_) throw Error("cancelled");  // step() knows the reason
    const model::Task& task = graph.tasks()[static_cast<std::size_t>(action.task)];
    const auto channel = static_cast<std::size_t>(action.channel);
    switch (action.kind) {
      case Action::Kind::run: {
        pacer_->begin();
        token = std::max(token, execute(graph, task, sample));
        const Pacer::Interval interval = pacer_->end(graph.batch(), task);
        if (action.event >= 0) disk_->done(action.event, interval.end);
        record(action.task, interval);
        break;
      }
      case Action::Kind::capture:
        record(~action.task, capture(task, *shape.outgoing[channel], schedule.outgoing[channel],
                                     action.position));
        break;
      case Action::Kind::deliver:
        record(~action.task, deliver(task, *shape.incoming[channel], schedule.incoming[channel],
                                     action.position));
        break;
      case Action::Kind::await:
        bind(action.position);
        break;
    }
  }
  pacer_->settle();
  pacer_->wait();
  for (OutgoingLane* lane : shape.outgoing) {
    const WaitsFor waits(*activity_, lane->peer());
    lane->finish();
  }
  for (IncomingLane* lane : shape.incoming) lane->finish();
  bytes_sent_ += schedule.relayed_bytes;
  if (disk_) disk_->finish();
  append_transfers(step, shape, log);
  append_loads(step, schedule.disk, log);
  return token;
}

// The token if it sampled one, else -1.
std::int32_t Runtime::execute(const model::TaskGraph& graph, const model::Task& task,
                              const SampleToken& sample) {
  if (task.kind == model::TaskKind::sample) {
    return sample(compute_->logits(graph.batch(), task.rows.begin));
  }
  if (task.kind == model::TaskKind::release) {
    compute_->unbind(task);
  } else {
    compute_->execute(graph.batch(), task);
  }
  return -1;
}

Pacer::Interval Runtime::capture(const model::Task& task, OutgoingLane& lane,
                                 const ChannelSchedule& channel, std::int32_t position) {
  const WaitsFor waits(*activity_, lane.peer());
  pacer_->wait();
  const std::span<float> payload = lane.room(position);
  MessageCopy copy{.kind = model::TaskKind::capture,
                   .device = options_.device,
                   .payload = model::Bytes{static_cast<double>(payload.size_bytes())},
                   .computing_thread = channel.by_computing_thread()};
  pacer_->begin();
  compute_->read_rows(task.input, task.rows, task.columns, payload);
  bytes_sent_ += static_cast<double>(payload.size_bytes());
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

Pacer::Interval Runtime::deliver(const model::Task& task, IncomingLane& lane,
                                 const ChannelSchedule& channel, std::int32_t position) {
  const WaitsFor waits(*activity_, lane.peer());
  const Clock::time_point asked = Clock::now();
  pacer_->wait();
  const std::span<const float> payload = lane.payload(position);
  MessageCopy copy{.kind = model::TaskKind::deliver,
                   .device = options_.device,
                   .payload = model::Bytes{static_cast<double>(payload.size_bytes())},
                   .computing_thread = channel.by_computing_thread() && !channel.passes_on};
  if (!lane.threaded()) copy.since = std::max(asked, lane.arrival(position));
  pacer_->available(lane.arrival(position));
  pacer_->begin();
  compute_->write_rows(task.output, task.rows, task.columns, payload);
  lane.delivered(position);
  return pacer_->end_copy(copy);
}

void Runtime::bind(std::int32_t load) {
  const WaitsFor waits(*activity_, options_.device);
  pacer_->wait();
  compute_->bind(disk_->await(load));
  pacer_->available(disk_->times(load).end);
}

void Runtime::append_transfers(std::int32_t step, const Shape& shape, TimeLog& log) {
  for (std::size_t c = 0; c < shape.outgoing.size(); ++c) {
    const auto& messages = shape.schedule.outgoing[c].messages;
    for (std::size_t m = 0; m < messages.size(); ++m) {
      const OutgoingLane::Times& times = shape.outgoing[c]->times(static_cast<std::int32_t>(m));
      log.push_back({.step = step,
                     .task = messages[m].task,
                     .start_ns = nanoseconds(times.start),
                     .end_ns = nanoseconds(times.sent)});
    }
  }
  for (std::size_t c = 0; c < shape.incoming.size(); ++c) {
    const auto& messages = shape.schedule.incoming[c].messages;
    for (std::size_t m = 0; m < messages.size(); ++m) {
      const std::int64_t arrived =
          nanoseconds(shape.incoming[c]->arrival(static_cast<std::int32_t>(m)));
      log.push_back(
          {.step = step, .task = messages[m].task, .start_ns = arrived, .end_ns = arrived});
    }
  }
}

void Runtime::append_loads(std::int32_t step, const DiskSchedule& disk, TimeLog& log) const {
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
    for (const auto& [peer, lane] : outgoing_) lane->cancel(reason_);
    for (const auto& [peer, lane] : incoming_) lane->cancel(reason_);
    if (disk_) disk_->cancel(reason_);
  } catch (...) {
    // Locking a sound mutex and copying a short text do not fail; nothing is left to do if they do.
    return;
  }
}

double Runtime::allocated_bytes() const {
  double bytes = 0.0;
  for (const auto& [peer, lane] : outgoing_) bytes += lane->allocated_bytes();
  for (const auto& [peer, lane] : incoming_) bytes += lane->allocated_bytes();
  return bytes;
}

}  // namespace tandem::exec
