#include "sim/replay.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u/Comm.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/error.hpp"
#include "model/extension.hpp"
#include "model/flights.hpp"
#include "model/program.hpp"
#include "sim/child.hpp"
#include "sim/dynamics.hpp"
#include "sim/engine.hpp"
#include "sim/flow_order.hpp"
#include "sim/frames.hpp"
#include "sim/network.hpp"
#include "sim/replay_steps.hpp"

namespace tandem::sim {
namespace {

namespace s4u = simgrid::s4u;
using model::ActionCost;
using model::ActionIndex;
using model::LaneAction;
using model::Program;
using model::Span;
using simgrid::kernel::timer::Timer;

// Runs lanes as model/program.hpp defines them. The end of a cpu or disk action follows from its
// start, so it is computed as soon as the start is known, ahead of the engine's clock; the engine
// carries the bytes of messages, where alone flows contend. A step is taken up when the first lane
// has nothing left to do.
class Replay : public model::StepEvaluator {
 public:
  Replay(const model::Cluster& cluster, const model::CostModel& costs, model::Steps* steps,
         FrameWriter& frames, std::uint64_t seed)
      : seed_(seed),
        varies_(!model::variation(cluster).empty()),
        cluster_(&cluster),
        costs_(&costs),
        steps_(steps),
        frames_(&frames),
        engine_(&make_engine()),
        network_(*engine_, cluster, steps != nullptr ? steps->channels() : std::nullopt) {
    s4u::Activity::on_completion_cb([this](const s4u::Activity& comm) {
      // What competes all the time has no lane.
      if (auto* const lane = comm.get_data<Lane>()) sent(*lane, s4u::Engine::get_clock());
    });
    network_.start_others();
  }

  // A run that `scheduler` drives.
  Replay(const model::Cluster& cluster, const model::CostModel& costs, model::Scheduler& scheduler,
         model::GraphSource& graphs, model::DeviceIndex master, FrameWriter& frames,
         std::uint64_t seed)
      : Replay(cluster, costs, nullptr, frames, seed) {
    scheduler_ = &scheduler;
    graphs_ = &graphs;
    master_ = master;
  }

  void run_scheduled() {
    submit(0.0, {});
    run_lanes();
    engine_->run();
    require(flights_.over() && open_.empty(), "replay: tasks were left waiting");
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
    first_byte_.resize(static_cast<std::size_t>(graph.size()));
    last_byte_.resize(static_cast<std::size_t>(graph.size()));
    take_up(graph, number);
    const std::shared_ptr<const PreparedStep> prepared = prepared_.back();
    const Program& program = prepared->program;
    run_lanes();
    engine_->run();
    require(open_.empty(), "replay: tasks were left waiting");
    const bool as_expected = model::decide(program, state_, times_, expected, made);
    made.order = flow_order(*cluster_, graph, first_byte_, last_byte_);
    state_.free.assign(lanes_.size(), 0.0);
    for (const auto& [key, lane] : lanes_)
      state_.free[static_cast<std::size_t>(lane.number)] = lane.free - origin_;
    state_.events.clear();
    for (const ActionIndex event : program.events())
      state_.events.push_back(times_.done[static_cast<std::size_t>(event)]);
    const double length = model::end_step(program, times_, state_);
    origin_ += length;
    return {.length = length,
            .as_expected = as_expected && (expected == nullptr || expected->order == made.order)};
  }
  [[nodiscard]] const model::StepState& state() const override { return state_; }
  void set_state(const model::StepState& state) override { state_ = state; }

 private:
  [[nodiscard]] Lane& lane_of(const LaneAction& action) {
    const auto devices = static_cast<std::uint64_t>(cluster_->size());
    std::uint64_t place = devices;
    switch (action.lane) {
      case model::LaneKind::cpu:
        break;
      case model::LaneKind::disk:
        place = devices + 1;
        break;
      case model::LaneKind::channel:
        place = static_cast<std::uint64_t>(action.peer);
        break;
    }
    const auto [at, fresh] =
        lanes_.try_emplace(static_cast<std::uint64_t>(action.device) * (devices + 2) + place);
    Lane& lane = at->second;
    if (fresh) lane.number = static_cast<std::int32_t>(lanes_.size()) - 1;
    if (fresh && action.lane == model::LaneKind::channel) {
      lane.from = action.device;
      lane.to = action.peer;
      lane.latency_s = cluster_->route(lane.from, lane.to).latency.value();
      network_.add_route(lane.from, lane.to);
    }
    return lane;
  }

  // What is prepared for `graph`, which becomes the last of prepared_. Only attention depends on
  // `past`.
  [[nodiscard]] std::shared_ptr<const PreparedStep> prepared_of(const model::TaskGraph& graph) {
    constexpr std::size_t kPrepared = 4;  // a prompt's, decoding's, and what else may alternate
    const auto known = std::find_if(prepared_.begin(), prepared_.end(), [&](const auto& prepared) {
      return prepared->key == graph.structure();
    });
    if (known != prepared_.end()) {
      std::rotate(known, known + 1, prepared_.end());
    } else {
      if (prepared_.size() == kPrepared) prepared_.erase(prepared_.begin());
      prepared_.push_back(std::make_shared<PreparedStep>(graph));
    }
    PreparedStep& prepared = *prepared_.back();
    const std::vector<LaneAction>& actions = prepared.program.actions();
    const bool fresh = prepared.costs.size() != actions.size();
    if (fresh && scheduler_ != nullptr) prepared.outcome = outcome_of(prepared.program, master_);
    prepared.costs.resize(actions.size());
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (fresh) prepared.lanes.push_back(&lane_of(actions[i]));
      if (fresh || actions[i].kind == model::TaskKind::attend)
        prepared.costs[i] = action_cost(*cluster_, *costs_, graph, actions[i]);
    }
    return prepared_.back();
  }

  // All that the scheduler gives now.
  void submit(double now, std::span<const model::StepOutcome> ended) {
    while (true) {
      const model::Decision decision = scheduler_->next(now, ended);
      ended = {};
      flights_.set_until(decision.until_s);
      if (!decision.step) break;
      frames_->add(*decision.step);
      flights_.submit();
      take_up(graphs_->graph_of(decision.step->batch), taken_up_, decision.step->not_before_s);
      const Step& step = open_.back();
      if (step.prepared->finishes() && step.opening == 0)
        flights_.set_opens(taken_up_ - 1, step.opens);
    }
    drop_done_steps();
  }

  // What happens by now to the steps in flight; whether anything did. Where there are several, a
  // moment is over before anything of it is done, so that all of it is known.
  bool pass_moment() {
    const double first = flights_.next();
    if (first == model::Flights::kUnknown) return false;
    const double last = first + model::same_moment(first);
    const double when = flights_.size() > 1 ? last : first;
    if (when > std::max(s4u::Engine::get_clock(), timer_)) {
      if (when < armed_ || armed_ <= timer_) {
        armed_ = when;
        Timer::set(when, [this, when] {
          timer_ = std::max(timer_, when);
          run_lanes();
        });
      }
      return false;
    }
    for (const std::int32_t step : flights_.take_finishes(last)) take_up_finish(step);
    run_runnable();
    double now = model::Flights::kUnknown;
    const std::vector<model::StepOutcome> ended = flights_.take_outcomes(last, now);
    if (now != model::Flights::kUnknown) submit(now, ended);
    return true;
  }

  void take_up_finish(std::int32_t index) {
    Step& step = open_[static_cast<std::size_t>(index - first_open_)];
    const PreparedStep& prepared = *step.prepared;
    const ActionIndex first = prepared.program.finish();
    Lane& lane = *prepared.lanes[static_cast<std::size_t>(first)];
    double& ready = step.states[static_cast<std::size_t>(first)].ready;
    ready = std::max(ready, step.opens);
    if (lane.actions.empty()) runnable_.push_back(&lane);
    for (ActionIndex i = first; i < prepared.program.size(); ++i)
      lane.actions.push_back({index, i});
  }

  void take_up_step() {
    requested_ = kNever;
    if (taken_up_ == steps_->count()) return;
    const std::int32_t index = taken_up_;
    take_up(steps_->graph(index), index);
  }

  // What depends on nothing starts at `not_before` or later, loads excepted.
  void take_up(const model::TaskGraph& graph, std::int32_t index, double not_before = 0.0) {
    taken_up_ = index + 1;
    if (alone_) first_open_ = index;
    Step& step = open_.emplace_back();
    step.prepared = prepared_of(graph);
    const PreparedStep& prepared = *step.prepared;
    const auto size = static_cast<std::size_t>(prepared.program.size());
    step.left = size;
    step.states.resize(size);
    step.opening = prepared.opening;
    step.opens = not_before;
    if (alone_) {
      times_.lane.resize(size);
      times_.done.resize(size);
      times_.left.resize(size);
    }
    for (ActionIndex i = 0; i < prepared.program.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      Step::State& state = step.states[at];
      Lane& lane = *prepared.lanes[at];
      state.cost = prepared.costs[at];
      if (scheduler_ == nullptr || i < prepared.program.finish()) {
        lane.actions.push_back({index, i});
        if (lane.actions.size() == 1) runnable_.push_back(&lane);
      }
      state.waits = static_cast<std::int32_t>(prepared.program.dependencies(i).size());
      if (state.waits == 0 && prepared.at(i).kind != model::TaskKind::load)
        state.ready = not_before;
      if (alone_) {
        for (const std::int32_t event : prepared.program.awaited_events(i)) {
          const auto m = static_cast<std::size_t>(event);
          if (m < state_.events.size())
            state.ready = std::max(state.ready, origin_ + state_.events[m]);
        }
        times_.lane[at] = lane.number;
      } else if (index > 0) {
        await_events(prepared.program.awaited_events(i), {index, i}, state);
      }
    }
    step.events.resize(prepared.program.events().size());
    drop_done_steps();
    if (size == 0 && scheduler_ == nullptr) {
      request_step(s4u::Engine::get_clock());
    }
  }

  // The action waits for events of the step before its own, as far as they are not done.
  void await_events(std::span<const std::int32_t> events, ActionRef ref, Step::State& state) {
    Step& before = open_[static_cast<std::size_t>(ref.step - 1 - first_open_)];
    for (const std::int32_t event : events) {
      require(static_cast<std::size_t>(event) < before.events.size(),
              "replay: an event that the step before did not record");
      Step::Event& awaited = before.events[static_cast<std::size_t>(event)];
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
    if (alone_ || last_taken_up()) return;
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

  void run_runnable() {
    while (!runnable_.empty()) {
      Lane* const lane = runnable_.back();
      runnable_.pop_back();
      run_lane(*lane);
    }
  }

  void run_lanes() {
    for (;;) {
      run_runnable();
      if (scheduler_ != nullptr) {
        if (!pass_moment()) return;
      } else {
        if (requested_ > kNow) return;
        take_up_step();
      }
    }
  }

  void run_lane(Lane& lane) {
    while (!lane.sending && !lane.actions.empty()) {
      const ActionRef ref = lane.actions.front();
      const Step::State& state = state_of(ref);
      if (state.waits > 0) return;
      const LaneAction& action = step_of(ref).prepared->at(ref.action);
      const double start = std::max({lane.free, state.ready, state.loaded});
      const double done = end_of(action, start, state.cost.seconds);
      if (action.lane == model::LaneKind::channel && state.cost.bytes > 0.0) {
        send(lane, start, done, state.cost.bytes);
      } else {
        leave(lane, start, done);
      }
    }
    if (lane.actions.empty() && scheduler_ == nullptr) request_step(lane.free);
  }

  // Of an action of a cpu or disk that begins at `start`; of a message: of what precedes its bytes.
  [[nodiscard]] double end_of(const LaneAction& action, double start, double seconds) const {
    if (varies_ && action.lane == model::LaneKind::cpu) {
      const auto device = static_cast<std::size_t>(action.device);
      return end_of_work(cluster_->devices()[device].speeds, start, seconds);
    }
    return start + seconds;
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
      Timer::set(first_byte, [&lane] { lane.comm->start(); });
      return;
    }
    // Steps are taken up early enough for every lane that an earlier one has used.
    const double moment = scheduler_ == nullptr ? 0.0 : 2.0 * model::same_moment(now);
    require(first_byte >= now * (1.0 - 1e-12) - moment,
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

  // The first action of `lane` leaves it at `time`, which need not have come yet.
  void leave(Lane& lane, double start, double time) {
    const ActionRef ref = lane.actions.front();
    lane.actions.pop_front();
    Step& step = step_of(ref);
    const PreparedStep& prepared = *step.prepared;
    const auto at = static_cast<std::size_t>(ref.action);
    const Step::State& state = step.states[at];
    const LaneAction& action = prepared.at(ref.action);
    const double stall = std::max(0.0, state.loaded - std::max(lane.free, state.ready));
    lane.free = time;
    const double end = arrival(lane, state.cost.bytes, time);
    Span span = model::span_of(action, ref.step);
    span.start = start;
    span.end = end;
    span.bytes = state.cost.bytes;
    span.flops = state.cost.flops;
    span.stall = stall;
    record(span, at, time, start + state.cost.seconds);
    const auto end_wait = [&](Lane* waiting_lane, Step::State& waiting, double& latest) {
      latest = std::max(latest, end);
      if (--waiting.waits == 0) runnable_.push_back(waiting_lane);
    };
    const bool load = action.kind == model::TaskKind::load;
    for (std::size_t k = prepared.first[at]; k < prepared.first[at + 1]; ++k) {
      const auto dependant = static_cast<std::size_t>(prepared.dependants[k]);
      Step::State& waiting = step.states[dependant];
      if (prepared.dependants[k] >= prepared.program.finish() &&
          ref.action < prepared.program.finish())
        end_opening(step, ref.step, end);
      end_wait(prepared.lanes[dependant], waiting, load ? waiting.loaded : waiting.ready);
    }
    if (const auto events = prepared.events_of.find(ref.action);
        events != prepared.events_of.end()) {
      for (const std::size_t m : events->second) {
        Step::Event& event = step.events[m];
        event.done = true;
        event.end = end;
        for (const ActionRef waiter : event.waiting) {
          Step::State& waiting = state_of(waiter);
          end_wait(step_of(waiter).prepared->lanes[static_cast<std::size_t>(waiter.action)],
                   waiting, waiting.ready);
        }
      }
    }
    if (ref.action == prepared.outcome) flights_.set_outcome(ref.step, end);
    --step.left;
    drop_done_steps();
  }

  // Something that the step's finish waits for has ended.
  void end_opening(Step& step, std::int32_t index, double end) {
    step.opens = std::max(step.opens, end);
    if (--step.opening == 0 && scheduler_ != nullptr) flights_.set_opens(index, step.opens);
  }

  void record(const Span& span, std::size_t action, double left, double first_byte) {
    if (!alone_) {
      frames_->add(span);
      return;
    }
    Span own = span;
    own.start -= origin_;
    own.end -= origin_;
    frames_->add(own);
    times_.done[action] = own.end;
    times_.left[action] = left - origin_;
    if (span.lane != model::LaneKind::channel) return;
    first_byte_[static_cast<std::size_t>(span.task)] = first_byte - origin_;
    last_byte_[static_cast<std::size_t>(span.task)] = left - origin_;
  }

  [[nodiscard]] bool last_taken_up() const {
    return scheduler_ != nullptr ? flights_.over() : taken_up_ == steps_->count();
  }

  // The last step taken up stays until the next one knows its events.
  void drop_done_steps() {
    while (!open_.empty() && open_.front().left == 0 &&
           (open_.size() > 1 || alone_ || last_taken_up())) {
      open_.pop_front();
      ++first_open_;
    }
  }

  [[nodiscard]] Step& step_of(ActionRef ref) {
    return open_[static_cast<std::size_t>(ref.step - first_open_)];
  }
  [[nodiscard]] Step::State& state_of(ActionRef ref) {
    return step_of(ref).states[static_cast<std::size_t>(ref.action)];
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
  std::vector<std::shared_ptr<PreparedStep>> prepared_;  // the last ones taken up
  std::deque<Step> open_;                                // steps taken up and not done
  std::vector<Lane*> runnable_;
  std::int32_t first_open_ = 0;  // index of open_'s first
  std::int32_t taken_up_ = 0;
  double requested_ = kNever;  // when to take up the next step

  // Of a run that a scheduler drives.
  model::Scheduler* scheduler_ = nullptr;
  model::GraphSource* graphs_ = nullptr;
  model::DeviceIndex master_ = 0;
  model::Flights flights_;
  double timer_ = 0.0;  // the latest for which a timer has gone off
  double armed_ = 0.0;  // the timer set last

  // Of steps that run alone.
  bool alone_ = false;
  double origin_ = 0.0;  // on the engine's clock, of the step
  model::StepState state_;
  model::StepTimes times_;
  std::vector<double> first_byte_;  // of messages, by task
  std::vector<double> last_byte_;
};

}  // namespace

void replay(const model::Cluster& cluster, const model::CostModel& costs, model::Steps& steps,
            model::RunRecorder& recorder) {
  replay_seeded(cluster, costs, steps, recorder, 1);
}

void replay_seeded(const model::Cluster& cluster, const model::CostModel& costs,
                   model::Steps& steps, model::RunRecorder& recorder, std::uint64_t seed) {
  SpanBlocks blocks;
  run_in_child(
      {.subject = "simulation", .timeout = {}},
      [&](const std::function<void(Bytes)>& send) {
        FrameWriter frames(send, blocks);
        Replay(cluster, costs, &steps, frames, seed).run_all();
        frames.flush();
      },
      [&](Bytes frame) {
        read_frame(frame, blocks,
                   {.spans = [&](std::span<const Span> spans) { recorder.record(spans); }});
      });
}

void replay_scheduled(const model::Cluster& cluster, const model::CostModel& costs,
                      model::Scheduler& scheduler, model::GraphSource& graphs,
                      model::RunRecorder& recorder, std::uint64_t seed) {
  SpanBlocks blocks;
  run_in_child(
      {.subject = "simulation", .timeout = {}},
      [&](const std::function<void(Bytes)>& send) {
        FrameWriter frames(send, blocks);
        Replay(cluster, costs, scheduler, graphs, recorder.master(), frames, seed).run_scheduled();
        frames.flush();
      },
      [&](Bytes frame) {
        read_frame(frame, blocks,
                   {.spans = [&](std::span<const Span> spans) { recorder.record(spans); },
                    .step = [&](const model::ScheduledStep& step) { recorder.submit(step); }});
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
  SpanBlocks blocks;
  run_in_child(
      {.subject = "simulation", .timeout = {}},
      [&](const std::function<void(Bytes)>& send) {
        FrameWriter frames(send, blocks);
        Replay replay(cluster, costs, &steps, frames, 1);
        model::evaluate_extended(steps, replay,
                                 [&](const model::StepBlend& blend) { frames.add(blend); });
        frames.flush();
      },
      [&](Bytes frame) {
        read_frame(frame, blocks,
                   {.spans = [&](std::span<const Span> spans) { blends.record(spans); },
                    .blend = [&](const model::StepBlend& blend) { blends.add(blend); }});
      });
}

}  // namespace tandem::sim
