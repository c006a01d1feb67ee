#pragma once

// All that the lanes of all devices do in a step, messages included: what evaluators walk.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/predict/cost_model.hpp"
#include "model/report/trace.hpp"

namespace tandem::model {

// Messages up to this size are sent and received by the computing threads themselves: cheaper than
// waking another thread. Of a channel, all messages of a step are, or none.
inline constexpr double kInlineBytes = 65536.0;

// One thing that a lane does: a task of the graph, or the capture or delivery of a transfer, in the
// cpu lanes.
struct LaneAction {
  TaskKind kind = TaskKind::add;
  LaneKind lane = LaneKind::cpu;
  // Of messages and their copies: the message is small enough for computing threads to send and
  // receive it.
  bool computing_thread = false;
  // All the same a relay is sent by a thread of the channel, and everything is received by one in a
  // channel with messages that are passed on as they arrive.
  bool lane_sends = false;
  bool lane_receives = false;
  TaskIndex task = 0;
  DeviceIndex device = 0;  // whose lane; of a channel: the sender
  DeviceIndex peer = -1;   // of a channel: the receiver
  std::int32_t layer = -1;
};

// The fields of an action of step `step` in a span, except times and amounts.
[[nodiscard]] inline Span span_of(const LaneAction& action, std::int32_t step) {
  return {.step = step,
          .task = action.task,
          .kind = action.kind,
          .lane = action.lane,
          .device = action.device,
          .peer = action.peer,
          .layer = action.layer};
}

using ActionIndex = std::int32_t;

// The actions of a step, in an order in which each comes after all that it waits for; the order of
// every lane is part of it. Serves every step of the graph's structure. A transfer is three
// actions:
//   a capture waits for the dependencies and events of the transfer,
//   the message itself for its capture, the delivery for the message.
// Of a relay (model/graph/message_schedule.hpp) there are two: the message waits for the message
// that it passes on. A task that depends on a transfer waits for the message: its device's delivery
// precedes it in its lane anyway.
class Program {
 public:
  explicit Program(const TaskGraph& graph);

  [[nodiscard]] ActionIndex size() const { return static_cast<ActionIndex>(actions_.size()); }
  [[nodiscard]] const std::vector<LaneAction>& actions() const { return actions_; }
  [[nodiscard]] std::span<const ActionIndex> dependencies(ActionIndex i) const {
    return slice(dependencies_, first_dependency_, i);
  }
  // The numbers of the events of the step before that action `i` waits for.
  [[nodiscard]] std::span<const std::int32_t> awaited_events(ActionIndex i) const {
    return slice(awaited_events_, first_awaited_event_, i);
  }
  // The actions of the step's own events, by the events' numbers.
  [[nodiscard]] const std::vector<ActionIndex>& events() const { return events_; }
  // The first action of the epilogue (TaskGraph::begin_epilogue): it and all that come after it are
  // of one cpu lane, deliveries included; size() if there is none.
  [[nodiscard]] ActionIndex epilogue() const { return epilogue_; }
  // The first task of each cpu lane that has one: what copying on write takes is part of it.
  [[nodiscard]] const std::vector<ActionIndex>& first_tasks() const { return first_tasks_; }
  // The action at whose end `task` is done: of a transfer, the message.
  [[nodiscard]] ActionIndex of(TaskIndex task) const {
    return action_of_[static_cast<std::size_t>(task)];
  }

 private:
  template <class T>
  static std::span<const T> slice(const std::vector<T>& all, const std::vector<std::size_t>& first,
                                  ActionIndex i) {
    const auto at = static_cast<std::size_t>(i);
    return {all.data() + first[at], all.data() + first[at + 1]};
  }
  // `source`: of a message, what it passes on.
  void add(const TaskGraph& graph, TaskKind kind, TaskIndex task, TaskIndex source = -1);

  std::vector<LaneAction> actions_;
  std::vector<ActionIndex> dependencies_;
  std::vector<std::size_t> first_dependency_{0};
  std::vector<std::int32_t> awaited_events_;
  std::vector<std::size_t> first_awaited_event_{0};
  std::vector<ActionIndex> events_;
  std::vector<ActionIndex> action_of_;
  std::vector<ActionIndex> first_tasks_;
  ActionIndex epilogue_ = 0;
};

// The action at whose end a run's scheduler learns the outcome of a step: the last sample on
// `master`, or where it samples nothing the last action of its cpu lane. Throws logic_error if that
// lane is empty.
[[nodiscard]] ActionIndex outcome_of(const Program& program, DeviceIndex master);

// What a message costs beyond its route and both ends' computing threads: CostModel's
// message_overhead and, of a small one, what threads of the channel do of it instead of those.
[[nodiscard]] Seconds message_overhead(const CostModel& costs, const LaneAction& message,
                                       Bytes payload);

// What an action costs in a step of `graph`.
struct ActionCost {
  double seconds = 0.0;  // cpu, disk: of the lane; channel: before the bytes
  double bytes = 0.0;    // as spans tell
  double flops = 0.0;
};
// Throws logic_error for a device outside the cluster, and for a load without a disk.
[[nodiscard]] ActionCost action_cost(const Cluster& cluster, const CostModel& costs,
                                     const TaskGraph& graph, const LaneAction& action);

// What `device` takes to copy `bytes` of its cache, before its first task of a step: a copy like
// that of a payload. 0 for none.
[[nodiscard]] Seconds cache_copy_time(const CostModel& costs, DeviceIndex device, Bytes bytes);

}  // namespace tandem::model
