#include "sim/replay/replay_run.hpp"

#include <algorithm>

#include "model/base/error.hpp"
#include "sim/network/dynamics.hpp"
#include "sim/network/flow_order.hpp"

namespace tandem::sim {

using model::ActionIndex;
using model::LaneAction;
using model::Program;
using model::Span;

Replay::Replay(const model::Cluster& cluster, const model::CostModel& costs, model::Steps* steps,
               Flows& flows, Output& output, std::uint64_t seed)
    : seed_(seed),
      varies_(!model::variation(cluster).empty()),
      cluster_(&cluster),
      costs_(&costs),
      steps_(steps),
      output_(&output),
      flows_(&flows) {
  flows_->on_sent([this](Flows::ChannelNumber channel) {
    sent(*channels_[static_cast<std::size_t>(channel)], flows_->now());
  });
}

Replay::Replay(const model::Cluster& cluster, const model::CostModel& costs,
               model::Scheduler& scheduler, model::GraphSource& graphs, model::DeviceIndex master,
               Flows& flows, Output& output, std::uint64_t seed)
    : Replay(cluster, costs, nullptr, flows, output, seed) {
  scheduler_ = &scheduler;
  graphs_ = &graphs;
  master_ = master;
}

void Replay::run_scheduled() {
  submit(0.0, {});
  run_lanes();
  flows_->run();
  require(in_flight_.over() && open_.empty(), "replay: tasks were left waiting");
}

void Replay::run_all() {
  // Two steps at once: a prompt and its successor between them use every lane.
  take_up_step();
  take_up_step();
  run_lanes();
  flows_->run();
  require(taken_up_ == steps_->count() && open_.empty(), "replay: tasks were left waiting");
}

model::StepEvaluator::Outcome Replay::run(const model::TaskGraph& graph, std::int32_t number,
                                          const model::Decisions* expected,
                                          model::Decisions& made) {
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
  flows_->run();
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

void Replay::run_runnable() {
  while (!runnable_.empty()) {
    Lane* const lane = runnable_.back();
    runnable_.pop_back();
    run_lane(*lane);
  }
}

void Replay::run_lanes() {
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

void Replay::run_lane(Lane& lane) {
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

double Replay::end_of(const LaneAction& action, double start, double seconds) const {
  if (varies_ && action.lane == model::LaneKind::cpu) {
    const auto device = static_cast<std::size_t>(action.device);
    return end_of_work(cluster_->devices()[device].speeds, start, seconds);
  }
  return start + seconds;
}

double Replay::arrival(Lane& lane, double bytes, double time) const {
  if (!varies_ || lane.to < 0) return time + lane.latency_s;
  const double latency_s = latency_at(*cluster_, cluster_->route(lane.from, lane.to), time);
  const double delay_s = extra_delay(*cluster_, lane.from, lane.to, bytes, seed_, lane.messages++);
  lane.arrived = std::max(lane.arrived, time + latency_s + delay_s);
  return lane.arrived;
}

void Replay::send(Lane& lane, double start, double first_byte, double bytes) {
  lane.sending = true;
  lane.started = start;
  const double now = flows_->now();
  if (first_byte > now) {
    flows_->at(first_byte, [this, &lane, bytes] { flows_->send(lane.channel, bytes); });
    return;
  }
  // Steps are submitted early enough for every lane that an earlier one has used.
  const double moment = scheduler_ == nullptr ? 0.0 : 2.0 * model::same_moment(now);
  require(first_byte >= now * (1.0 - 1e-12) - moment,
          "replay: a message without dependencies on a channel that no earlier step uses");
  flows_->send(lane.channel, bytes);
}

void Replay::sent(Lane& lane, double time) {
  lane.sending = false;
  leave(lane, lane.started, time);
  runnable_.push_back(&lane);
  run_lanes();
}

void Replay::leave(Lane& lane, double start, double time) {
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
    if (prepared.dependants[k] >= prepared.program.epilogue() &&
        ref.action < prepared.program.epilogue())
      end_opening(step, ref.step, end);
    end_wait(prepared.lanes[dependant], waiting, load ? waiting.loaded : waiting.ready);
  }
  if (const auto events = prepared.events_of.find(ref.action); events != prepared.events_of.end()) {
    for (const std::size_t m : events->second) {
      Step::Event& event = step.events[m];
      event.done = true;
      event.end = end;
      for (const ActionRef waiter : event.waiting) {
        Step::State& waiting = state_of(waiter);
        end_wait(step_of(waiter).prepared->lanes[static_cast<std::size_t>(waiter.action)], waiting,
                 waiting.ready);
      }
    }
  }
  if (ref.action == prepared.outcome) in_flight_.set_outcome(ref.step, end);
  --step.left;
  drop_done_steps();
}

void Replay::end_opening(Step& step, std::int32_t index, double end) {
  step.opens = std::max(step.opens, end);
  if (--step.opening == 0 && scheduler_ != nullptr) in_flight_.set_opens(index, step.opens);
}

void Replay::record(const Span& span, std::size_t action, double left, double first_byte) {
  if (!alone_) {
    output_->add(span);
    return;
  }
  Span own = span;
  own.start -= origin_;
  own.end -= origin_;
  output_->add(own);
  times_.done[action] = own.end;
  times_.left[action] = left - origin_;
  if (span.lane != model::LaneKind::channel) return;
  first_byte_[static_cast<std::size_t>(span.task)] = first_byte - origin_;
  last_byte_[static_cast<std::size_t>(span.task)] = left - origin_;
}

void Replay::drop_done_steps() {
  while (!open_.empty() && open_.front().left == 0 &&
         (open_.size() > 1 || alone_ || last_taken_up())) {
    open_.pop_front();
    ++first_open_;
  }
}

}  // namespace tandem::sim
