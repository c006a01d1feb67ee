#include "model/predict/program.hpp"

#include <algorithm>
#include <unordered_map>

#include "model/base/error.hpp"
#include "model/graph/message_schedule.hpp"

namespace tandem::model {

namespace {

struct Carriers {  // as in LaneAction
  bool computing_thread = false;
  bool lane_sends = false;
  bool lane_receives = false;
};

// By task: who sends and receives it; that goes by all messages of its channel.
std::vector<Carriers> carriers_of(const TaskGraph& graph, const MessageSchedule& schedule) {
  const auto channel = [](const Task& task) {
    return (std::int64_t{task.device} << 32) + std::int64_t{task.peer};
  };
  struct Channel {
    double largest = 0.0;
    bool forwards = false;  // a message of it is passed on as it arrives
  };
  std::unordered_map<std::int64_t, Channel> channels;
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    if (task.lane != LaneKind::channel) continue;
    double& bytes = channels[channel(task)].largest;
    bytes = std::max(bytes, static_cast<double>(payload_bytes(task)));
    if (!schedule.is_relay(i)) continue;
    const auto source = static_cast<std::size_t>(schedule.source[static_cast<std::size_t>(i)]);
    channels[channel(graph.tasks()[source])].forwards = true;
  }
  std::vector<Carriers> carriers(graph.tasks().size());
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (graph.tasks()[at].lane != LaneKind::channel) continue;
    const Channel& own = channels.at(channel(graph.tasks()[at]));
    carriers[at] = {.computing_thread = own.largest <= kInlineBytes,
                    .lane_sends = schedule.is_relay(i),
                    .lane_receives = own.forwards};
  }
  return carriers;
}

// Transfers by place, in order of index: those of place p are [first[p + 1], first[p + 2]) of
// `tasks`; kBegin is -1, kEnd counts as the number of tasks.
struct ByPlace {
  std::vector<std::size_t> first;
  std::vector<TaskIndex> tasks;

  ByPlace(const TaskGraph& graph, const std::vector<TaskIndex>& places)
      : first(static_cast<std::size_t>(graph.size()) + 3, 0) {
    const auto slot = [&](TaskIndex i) {
      const TaskIndex place = places[static_cast<std::size_t>(i)];
      return static_cast<std::size_t>(std::min(place, graph.size()) + 1);
    };
    const auto is_transfer = [&](TaskIndex i) {
      return graph.tasks()[static_cast<std::size_t>(i)].lane == LaneKind::channel;
    };
    for (TaskIndex i = 0; i < graph.size(); ++i) {
      if (is_transfer(i)) ++first[slot(i) + 1];
    }
    for (std::size_t k = 1; k < first.size(); ++k) first[k] += first[k - 1];
    tasks.resize(first.back());
    std::vector<std::size_t> next(first.begin(), first.end() - 1);
    for (TaskIndex i = 0; i < graph.size(); ++i) {
      if (is_transfer(i)) tasks[next[slot(i)]++] = i;
    }
  }
  [[nodiscard]] std::span<const TaskIndex> at(TaskIndex place) const {
    const auto k = static_cast<std::size_t>(std::ptrdiff_t{place} + 1);
    return {tasks.data() + first[k], tasks.data() + first[k + 1]};
  }
};

// Whether a thread of the channel does what computing threads do of small messages, at the end of
// this copy.
bool by_lane(const LaneAction& copy) {
  return copy.kind == TaskKind::capture ? copy.lane_sends : copy.lane_receives;
}

}  // namespace

Program::Program(const TaskGraph& graph)
    : action_of_(static_cast<std::size_t>(graph.size()), ActionIndex{-1}) {
  const MessageSchedule schedule = message_schedule(graph);
  const ByPlace captures(graph, schedule.capture);
  const ByPlace deliveries(graph, schedule.delivery);
  const std::vector<Carriers> carriers = carriers_of(graph, schedule);
  const std::size_t size = static_cast<std::size_t>(graph.size()) + 2 * captures.tasks.size();
  require(size <= static_cast<std::size_t>(std::numeric_limits<ActionIndex>::max()),
          "program: too many actions");
  actions_.reserve(size);
  first_dependency_.reserve(size + 1);
  first_awaited_event_.reserve(size + 1);
  for (TaskIndex place = MessageSchedule::kBegin; place <= graph.size(); ++place) {
    if (place == graph.epilogue()) epilogue_ = this->size();
    for (const TaskIndex i : deliveries.at(place)) add(graph, TaskKind::deliver, i);
    if (place >= 0 && place < graph.size()) {
      const Task& task = graph.tasks()[static_cast<std::size_t>(place)];
      if (task.lane != LaneKind::channel) add(graph, task.kind, place);
    }
    for (const TaskIndex i : captures.at(place)) {
      if (!schedule.is_relay(i)) add(graph, TaskKind::capture, i);
      add(graph, TaskKind::transfer, i, schedule.source[static_cast<std::size_t>(i)]);
    }
  }
  if (!graph.has_epilogue()) epilogue_ = this->size();
  for (ActionIndex i = epilogue_; i < this->size(); ++i) {
    const LaneAction& action = actions_[static_cast<std::size_t>(i)];
    require(action.lane == LaneKind::cpu &&
                action.device == actions_[static_cast<std::size_t>(epilogue_)].device,
            "program: an epilogue is actions of one cpu lane");
  }
  for (LaneAction& action : actions_) {
    const Carriers& own = carriers[static_cast<std::size_t>(action.task)];
    action.computing_thread = own.computing_thread;
    action.lane_sends = own.lane_sends;
    action.lane_receives = own.lane_receives;
  }
  std::vector<bool> begun;
  for (ActionIndex i = 0; i < this->size(); ++i) {
    const LaneAction& action = actions_[static_cast<std::size_t>(i)];
    if (action.lane != LaneKind::cpu || action.kind == TaskKind::capture ||
        action.kind == TaskKind::deliver)
      continue;
    const auto device = static_cast<std::size_t>(action.device);
    if (begun.size() <= device) begun.resize(device + 1, false);
    if (!begun[device]) first_tasks_.push_back(i);
    begun[device] = true;
  }
  events_.reserve(graph.events().size());
  for (const TaskIndex task : graph.events()) events_.push_back(of(task));
}

void Program::add(const TaskGraph& graph, TaskKind kind, TaskIndex index, TaskIndex source) {
  const Task& task = graph.tasks()[static_cast<std::size_t>(index)];
  const bool copy = kind == TaskKind::capture || kind == TaskKind::deliver;
  const ActionIndex own = size();
  if (kind == TaskKind::deliver) {
    dependencies_.push_back(of(index));
  } else if (kind == TaskKind::transfer) {
    // What it passes on, or its capture.
    dependencies_.push_back(source != MessageSchedule::kCaptured ? of(source) : own - 1);
  } else {
    for (const TaskIndex d : graph.dependencies(index)) dependencies_.push_back(of(d));
    const auto events = graph.awaited_events(index);
    awaited_events_.insert(awaited_events_.end(), events.begin(), events.end());
  }
  if (kind != TaskKind::capture && kind != TaskKind::deliver)
    action_of_[static_cast<std::size_t>(index)] = own;
  actions_.push_back({.kind = kind,
                      .lane = copy ? LaneKind::cpu : task.lane,
                      .task = index,
                      .device = kind == TaskKind::deliver ? task.peer : task.device,
                      .peer = copy ? -1 : task.peer,
                      .layer = task.layer});
  first_dependency_.push_back(dependencies_.size());
  first_awaited_event_.push_back(awaited_events_.size());
}

ActionIndex outcome_of(const Program& program, DeviceIndex master) {
  ActionIndex last = -1;
  bool samples = false;
  for (ActionIndex i = 0; i < program.size(); ++i) {
    const LaneAction& action = program.actions()[static_cast<std::size_t>(i)];
    if (action.device != master || action.lane != LaneKind::cpu) continue;
    const bool sample = action.kind == TaskKind::sample;
    if (samples && !sample) continue;
    samples = sample;
    last = i;
  }
  require(last >= 0, "outcome_of: the master has nothing to do in this step");
  return last;
}

Seconds message_overhead(const CostModel& costs, const LaneAction& message, Bytes payload) {
  Seconds overhead = costs.message_overhead(message.device, payload, message.computing_thread);
  if (!message.computing_thread) return overhead;
  if (message.lane_sends)
    overhead = overhead + costs.handling_time(message.device, TaskKind::capture, payload);
  if (message.lane_receives)
    overhead = overhead + costs.handling_time(message.peer, TaskKind::deliver, payload);
  return overhead;
}

Seconds cache_copy_time(const CostModel& costs, DeviceIndex device, Bytes bytes) {
  if (bytes.value() <= 0.0) return Seconds{0.0};
  return costs.copy_time(device, TaskKind::capture, plain_copy(bytes),
                         /*computing_thread=*/false);
}

ActionCost action_cost(const Cluster& cluster, const CostModel& costs, const TaskGraph& graph,
                       const LaneAction& action) {
  require(action.device < cluster.size() && action.peer < cluster.size(),
          "action_cost: an action on a device outside the cluster");
  const Task& task = graph.tasks()[static_cast<std::size_t>(action.task)];
  if (action.kind == TaskKind::capture || action.kind == TaskKind::deliver) {
    const CopySize size = copy_size(action.kind, task);
    return {.seconds = costs
                           .copy_time(action.device, action.kind, size,
                                      action.computing_thread && !by_lane(action))
                           .value(),
            .bytes = copy_work(size).streamed_bytes};
  }
  const Work work = work_of(costs.transformer(), graph.batch(), task);
  ActionCost cost{.bytes = span_bytes(task, work), .flops = work.flops};
  cost.seconds =
      (action.lane == LaneKind::channel ? message_overhead(costs, action, Bytes{work.bytes_wire})
                                        : lane_time(cluster, costs, task, work))
          .value();
  return cost;
}

}  // namespace tandem::model
