#include "sim/replay.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u/Comm.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/error.hpp"
#include "model/extension.hpp"
#include "model/work.hpp"
#include "sim/child.hpp"
#include "sim/dynamics.hpp"
#include "sim/engine.hpp"
#include "sim/flow_order.hpp"
#include "sim/frames.hpp"
#include "sim/network.hpp"

namespace tandem::sim {
namespace {

namespace s4u = simgrid::s4u;
using model::Span;
using model::Task;
using model::TaskIndex;
using simgrid::kernel::timer::Timer;

struct TaskRef {
  std::int32_t step = 0;
  TaskIndex task = 0;
};

struct Lane {
  std::int32_t number = 0;
  std::deque<TaskRef> tasks;  // front: the next, or the message being sent
  double free = 0.0;          // when the last one left it
  model::DeviceIndex from = 0;
  model::DeviceIndex to = -1;
  double latency_s = 0.0;      // of a channel's route
  std::uint64_t messages = 0;  // that it has sent, if anything varies
  double arrived = 0.0;        // the last of them
  bool sending = false;
  double started = 0.0;  // of the message being sent
  s4u::CommPtr comm;
};

// What is left of a step: its tasks that have not ended, and who waits for whom.
struct Step {
  struct State {
    Span span;  // start and end to be filled in
    Lane* lane = nullptr;
    double duration = 0.0;   // cpu and disk: of the task; channel: of what precedes the bytes
    double ready = 0.0;      // latest end of the dependencies that have ended, but loads
    double loaded = 0.0;     // of the loads among them
    std::int32_t waits = 0;  // dependencies that have not
  };
  struct Mark {
    bool done = false;
    double end = 0.0;
    std::vector<TaskRef> waiting;  // tasks of the next step
  };
  std::vector<State> tasks;
  std::vector<Mark> marks;
  std::unordered_map<TaskIndex, std::vector<std::size_t>> marks_of;  // of a task
  std::vector<TaskIndex> dependants;  // of task i: [first[i], first[i + 1])
  std::vector<std::size_t> first;
  std::size_t left = 0;
};

// Runs lanes as model/task_graph.hpp defines them. The end of a cpu or disk task follows from its
// start, so it is computed as soon as the start is known, ahead of the engine's clock; the engine
// carries the bytes of messages, where alone flows contend. A step is taken up when the first lane
// has nothing left to do.
class Replay : public model::StepEvaluator {
 public:
  Replay(const model::Cluster& cluster, const model::CostModel& costs, model::Steps& steps,
         FrameWriter& frames, std::uint64_t seed)
      : seed_(seed),
        varies_(!model::variation(cluster).empty()),
        cluster_(&cluster),
        costs_(&costs),
        steps_(&steps),
        frames_(&frames),
        engine_(&make_engine()),
        network_(*engine_, cluster) {
    s4u::Activity::on_completion_cb([this](const s4u::Activity& comm) {
      // What competes all the time has no lane.
      if (auto* const lane = comm.get_data<Lane>()) sent(*lane, s4u::Engine::get_clock());
    });
    network_.start_others();
  }

  void run_all() {
    // Two steps at once: a prompt and its successor between them use every lane.
    take_up_step();
    take_up_step();
    run_lanes();
    engine_->run();
    require(taken_up_ == steps_->count() && open_.empty(), "replay: tasks were left waiting");
  }

  // One step alone, which must leave nothing in flight at its end and send nothing before its begin
  // (drains): then the engine need not know of the steps before and after.
  Outcome run(const model::TaskGraph& graph, std::int32_t number, const model::Decisions* expected,
              model::Decisions& made) override {
    alone_ = true;
    for (auto& [key, lane] : lanes_) {
      const auto i = static_cast<std::size_t>(lane.number);
      lane.free = origin_ + (i < state_.free.size() ? state_.free[i] : 0.0);
    }
    const auto size = static_cast<std::size_t>(graph.size());
    times_.lane.resize(size);
    times_.done.resize(size);
    times_.left.resize(size);
    first_byte_.resize(size);
    take_up(graph, number);
    run_lanes();
    engine_->run();
    require(open_.empty(), "replay: tasks were left waiting");
    const bool as_expected = model::decide(graph, state_, times_, expected, made);
    made.order = flow_order(*cluster_, graph, first_byte_, times_.left);
    state_.free.assign(lanes_.size(), 0.0);
    for (const auto& [key, lane] : lanes_)
      state_.free[static_cast<std::size_t>(lane.number)] = lane.free - origin_;
    state_.marks.clear();
    for (const TaskIndex mark : graph.carried())
      state_.marks.push_back(times_.done[static_cast<std::size_t>(mark)]);
    const double length = model::end_step(graph, times_, state_);
    origin_ += length;
    return {.length = length,
            .as_expected = as_expected && (expected == nullptr || expected->order == made.order)};
  }
  [[nodiscard]] const model::StepState& state() const override { return state_; }
  void set_state(const model::StepState& state) override { state_ = state; }

 private:
  [[nodiscard]] Lane& lane_of(const Span& span) {
    const auto devices = static_cast<std::uint64_t>(cluster_->size());
    std::uint64_t place = devices;
    switch (span.lane) {
      case model::LaneKind::cpu:
        break;
      case model::LaneKind::disk:
        place = devices + 1;
        break;
      case model::LaneKind::channel:
        place = static_cast<std::uint64_t>(span.peer);
        break;
    }
    const auto [at, fresh] =
        lanes_.try_emplace(static_cast<std::uint64_t>(span.device) * (devices + 2) + place);
    Lane& lane = at->second;
    if (fresh) lane.number = static_cast<std::int32_t>(lanes_.size()) - 1;
    if (fresh && span.lane == model::LaneKind::channel) {
      lane.from = span.device;
      lane.to = span.peer;
      lane.latency_s = cluster_->route(lane.from, lane.to).latency.value();
      network_.add_route(lane.from, lane.to);
    }
    return lane;
  }

  // Fills in what the task does and how long it takes.
  void cost(const model::Batch& batch, const Task& task, Step::State& state) const {
    const model::Work work = model::work_of(costs_->transformer(), batch, task);
    state.span.flops = work.flops;
    state.span.bytes = model::span_bytes(task, work);
    switch (task.lane) {
      case model::LaneKind::cpu:
      case model::LaneKind::disk:
        state.duration = lane_time(*cluster_, *costs_, task, work).value();
        return;
      case model::LaneKind::channel:
        state.duration =
            costs_->message_overhead(task.device, model::Bytes{work.bytes_wire}).value();
        return;
    }
  }

  void take_up_step() {
    requested_ = kNever;
    if (taken_up_ == steps_->count()) return;
    const std::int32_t index = taken_up_;
    take_up(steps_->graph(index), index);
  }

  void take_up(const model::TaskGraph& graph, std::int32_t index) {
    taken_up_ = index + 1;
    if (alone_) first_open_ = index;
    const auto size = static_cast<std::size_t>(graph.size());
    Step& step = open_.emplace_back();
    step.left = size;
    step.tasks.resize(size);
    step.first.assign(size + 1, 0);
    for (TaskIndex i = 0; i < graph.size(); ++i) {
      const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
      Step::State& state = step.tasks[static_cast<std::size_t>(i)];
      state.span = {.step = index,
                    .task = i,
                    .kind = task.kind,
                    .lane = task.lane,
                    .device = task.device,
                    .peer = task.peer,
                    .layer = task.layer};
      cost(graph.batch(), task, state);
      state.lane = &lane_of(state.span);
      state.lane->tasks.push_back({index, i});
      if (state.lane->tasks.size() == 1) runnable_.push_back(state.lane);
      state.waits = static_cast<std::int32_t>(graph.dependencies(i).size());
      if (alone_) {
        for (const std::int32_t mark : graph.carried_dependencies(i)) {
          const auto m = static_cast<std::size_t>(mark);
          if (m < state_.marks.size())
            state.ready = std::max(state.ready, origin_ + state_.marks[m]);
        }
        times_.lane[static_cast<std::size_t>(i)] = state.lane->number;
      } else if (index > 0) {
        await_marks(graph.carried_dependencies(i), {index, i}, state);
      }
      for (const TaskIndex d : graph.dependencies(i)) ++step.first[static_cast<std::size_t>(d) + 1];
    }
    for (std::size_t i = 0; i < size; ++i) step.first[i + 1] += step.first[i];
    step.dependants.resize(step.first[size]);
    std::vector<std::size_t> next(step.first.begin(), step.first.end() - 1);
    for (TaskIndex i = 0; i < graph.size(); ++i) {
      for (const TaskIndex d : graph.dependencies(i)) {
        step.dependants[next[static_cast<std::size_t>(d)]++] = i;
      }
    }
    step.marks.resize(graph.carried().size());
    for (std::size_t m = 0; m < step.marks.size(); ++m)
      step.marks_of[graph.carried()[m]].push_back(m);
    drop_done_steps();
    if (size == 0) {
      request_step(s4u::Engine::get_clock());
    }
  }

  // The task waits for marks of the step before its own, as far as they are not done.
  void await_marks(std::span<const std::int32_t> marks, TaskRef ref, Step::State& state) {
    Step& before = open_[static_cast<std::size_t>(ref.step - 1 - first_open_)];
    for (const std::int32_t mark : marks) {
      require(static_cast<std::size_t>(mark) < before.marks.size(),
              "replay: a mark that the step before does not carry");
      Step::Mark& awaited = before.marks[static_cast<std::size_t>(mark)];
      if (awaited.done) {
        state.ready = std::max(state.ready, awaited.end);
      } else {
        awaited.waiting.push_back(ref);
        ++state.waits;
      }
    }
  }

  // Has the next step taken up at `time`, unless that is done by then.
  void request_step(double time) {
    if (alone_ || taken_up_ == steps_->count()) return;
    if (time <= s4u::Engine::get_clock()) {
      requested_ = kNow;
    } else if (time < requested_) {
      requested_ = time;
      Timer::set(time, [this, awaited = taken_up_] {
        if (taken_up_ == awaited) requested_ = kNow;
        run_lanes();
      });
    }
  }

  void run_lanes() {
    for (;;) {
      while (!runnable_.empty()) {
        Lane* const lane = runnable_.back();
        runnable_.pop_back();
        run_lane(*lane);
      }
      if (requested_ > kNow) return;
      take_up_step();
    }
  }

  void run_lane(Lane& lane) {
    while (!lane.sending && !lane.tasks.empty()) {
      const TaskRef ref = lane.tasks.front();
      const Step::State& state = state_of(ref);
      if (state.waits > 0) return;
      const double start = std::max({lane.free, state.ready, state.loaded});
      const double done = end_of(state, start);
      if (state.span.lane == model::LaneKind::channel && state.span.bytes > 0.0) {
        send(lane, start, done, state.span.bytes);
      } else {
        leave(lane, start, done);
      }
    }
    if (lane.tasks.empty()) request_step(lane.free);
  }

  // Of a cpu or disk task that begins at `start`; of a message: of what precedes its bytes.
  [[nodiscard]] double end_of(const Step::State& state, double start) const {
    if (varies_ && state.span.lane == model::LaneKind::cpu) {
      const auto device = static_cast<std::size_t>(state.span.device);
      return end_of_work(cluster_->devices()[device].speeds, start, state.duration);
    }
    return start + state.duration;
  }

  // When the message whose last byte leaves at `time` is done. None overtakes another.
  double arrival(Lane& lane, double bytes, double time) const {
    if (!varies_ || lane.to < 0) return time + lane.latency_s;
    const double latency_s = latency_at(*cluster_, cluster_->route(lane.from, lane.to), time);
    const double delay_s =
        extra_delay(*cluster_, lane.from, lane.to, bytes, seed_, lane.messages++);
    lane.arrived = std::max(lane.arrived, time + latency_s + delay_s);
    return lane.arrived;
  }

  // The channel is taken at `start`, the first byte goes at `first_byte`.
  void send(Lane& lane, double start, double first_byte, double bytes) {
    lane.sending = true;
    lane.started = start;
    lane.comm = network_.message(lane.from, lane.to, bytes);
    lane.comm->set_data(&lane);
    const double now = s4u::Engine::get_clock();
    if (first_byte > now) {
      Timer::set(first_byte, [comm = lane.comm] { comm->start(); });
      return;
    }
    // Steps are taken up early enough for every lane that an earlier one has used.
    require(first_byte >= now * (1.0 - 1e-12),
            "replay: a message without dependencies on a channel that no earlier step uses");
    lane.comm->start();
  }

  // The last byte of the message in `lane` has been sent at `time`.
  void sent(Lane& lane, double time) {
    lane.sending = false;
    leave(lane, lane.started, time);
    runnable_.push_back(&lane);
    run_lanes();
  }

  // The first task of `lane` leaves it at `time`, which need not have come yet.
  void leave(Lane& lane, double start, double time) {
    const TaskRef ref = lane.tasks.front();
    lane.tasks.pop_front();
    Step& step = step_of(ref);
    const auto task = static_cast<std::size_t>(ref.task);
    const Step::State& state = step.tasks[task];
    Span& span = step.tasks[task].span;
    span.stall = std::max(0.0, state.loaded - std::max(lane.free, state.ready));
    lane.free = time;
    span.start = start;
    span.end = arrival(lane, span.bytes, time);
    record(span, time, start + state.duration);
    const auto end_wait = [&](Step::State& waiting, double& latest) {
      latest = std::max(latest, span.end);
      if (--waiting.waits == 0) runnable_.push_back(waiting.lane);
    };
    for (std::size_t k = step.first[task]; k < step.first[task + 1]; ++k) {
      Step::State& waiting = step.tasks[static_cast<std::size_t>(step.dependants[k])];
      const bool load = span.kind == model::TaskKind::load;
      end_wait(waiting, load ? waiting.loaded : waiting.ready);
    }
    if (const auto marks = step.marks_of.find(ref.task); marks != step.marks_of.end()) {
      for (const std::size_t m : marks->second) {
        Step::Mark& mark = step.marks[m];
        mark.done = true;
        mark.end = span.end;
        for (const TaskRef waiter : mark.waiting) {
          Step::State& waiting = state_of(waiter);
          end_wait(waiting, waiting.ready);
        }
      }
    }
    --step.left;
    drop_done_steps();
  }

  void record(const Span& span, double left, double first_byte) {
    if (!alone_) {
      frames_->add(span);
      return;
    }
    Span own = span;
    own.start -= origin_;
    own.end -= origin_;
    frames_->add(own);
    const auto task = static_cast<std::size_t>(span.task);
    times_.done[task] = own.end;
    times_.left[task] = left - origin_;
    first_byte_[task] = first_byte - origin_;
  }

  // The last step taken up stays until the next one knows its marks.
  void drop_done_steps() {
    while (!open_.empty() && open_.front().left == 0 &&
           (open_.size() > 1 || alone_ || taken_up_ == steps_->count())) {
      open_.pop_front();
      ++first_open_;
    }
  }

  [[nodiscard]] Step& step_of(TaskRef ref) {
    return open_[static_cast<std::size_t>(ref.step - first_open_)];
  }
  [[nodiscard]] Step::State& state_of(TaskRef ref) {
    return step_of(ref).tasks[static_cast<std::size_t>(ref.task)];
  }

  static constexpr double kNow = -1.0;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  std::uint64_t seed_;
  bool varies_;
  const model::Cluster* cluster_;
  const model::CostModel* costs_;
  model::Steps* steps_;
  FrameWriter* frames_;
  s4u::Engine* engine_;
  Network network_;
  std::unordered_map<std::uint64_t, Lane> lanes_;
  std::deque<Step> open_;  // steps taken up and not done
  std::vector<Lane*> runnable_;
  std::int32_t first_open_ = 0;  // index of open_'s first
  std::int32_t taken_up_ = 0;
  double requested_ = kNever;  // when to take up the next step

  // Of steps that run alone.
  bool alone_ = false;
  double origin_ = 0.0;  // on the engine's clock, of the step
  model::StepState state_;
  model::StepTimes times_;
  std::vector<double> first_byte_;  // of messages
};

}  // namespace

void replay(const model::Cluster& cluster, const model::CostModel& costs, model::Steps& steps,
            model::RunRecorder& recorder) {
  replay_seeded(cluster, costs, steps, recorder, 1);
}

void replay_seeded(const model::Cluster& cluster, const model::CostModel& costs,
                   model::Steps& steps, model::RunRecorder& recorder, std::uint64_t seed) {
  run_in_child(
      {.subject = "simulation", .timeout = {}},
      [&](const std::function<void(Bytes)>& send) {
        FrameWriter frames(send);
        Replay(cluster, costs, steps, frames, seed).run_all();
        frames.flush();
      },
      [&](Bytes frame) {
        read_frame(
            frame, [&](const Span& span) { recorder.record(span); },
            [](const model::StepBlend&) {});
      });
}

void replay_extended(const model::Cluster& cluster, const model::CostModel& costs,
                     model::Steps& steps, model::RunRecorder& recorder) {
  if (!model::variation(cluster).empty() || !steps.any_order() || steps.count() < 2 ||
      !drains(steps.graph(0)) || !drains(steps.graph(1))) {
    replay(cluster, costs, steps, recorder);
    return;
  }
  model::BlendRecorder blends(cluster, recorder.master(), recorder);
  run_in_child(
      {.subject = "simulation", .timeout = {}},
      [&](const std::function<void(Bytes)>& send) {
        FrameWriter frames(send);
        Replay replay(cluster, costs, steps, frames, 1);
        model::evaluate_extended(steps, replay,
                                 [&](const model::StepBlend& blend) { frames.add(blend); });
        frames.flush();
      },
      [&](Bytes frame) {
        read_frame(
            frame, [&](const Span& span) { blends.record(span); },
            [&](const model::StepBlend& blend) { blends.add(blend); });
      });
}

}  // namespace tandem::sim
