// Submits the steps of a replay: the next of a list, or those of a scheduler.

#include <algorithm>

#include "model/base/error.hpp"
#include "sim/replay/replay_run.hpp"

namespace tandem::sim {

using model::ActionIndex;
using model::LaneAction;

Lane& Replay::lane_of(const LaneAction& action) {
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
    lane.channel = flows_->add_channel(lane.from, lane.to);
    channels_.push_back(&lane);
  }
  return lane;
}

std::shared_ptr<const PreparedStep> Replay::prepared_of(const model::TaskGraph& graph) {
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

void Replay::submit(double now, std::span<const model::StepOutcome> ended) {
  while (true) {
    const model::Decision decision = scheduler_->next(now, ended);
    ended = {};
    in_flight_.set_until(decision.until_s);
    if (!decision.step) break;
    output_->add(*decision.step);
    in_flight_.submit();
    take_up(graphs_->graph_of(decision.step->batch), taken_up_, decision.step->not_before_s);
    const Step& step = open_.back();
    if (step.prepared->has_epilogue() && step.opening == 0)
      in_flight_.set_opens(taken_up_ - 1, step.opens);
  }
  drop_done_steps();
}

bool Replay::pass_moment() {
  const double first = in_flight_.next();
  if (first == model::InFlightSteps::kUnknown) return false;
  const double last = first + model::same_moment(first);
  const double when = in_flight_.size() > 1 ? last : first;
  if (when > std::max(flows_->now(), timer_)) {
    if (when < armed_ || armed_ <= timer_) {
      armed_ = when;
      flows_->at(when, [this, when] {
        timer_ = std::max(timer_, when);
        run_lanes();
      });
    }
    return false;
  }
  for (const std::int32_t step : in_flight_.take_epilogues(last)) take_up_epilogue(step);
  run_runnable();
  double now = model::InFlightSteps::kUnknown;
  const std::vector<model::StepOutcome> ended = in_flight_.take_outcomes(last, now);
  if (now != model::InFlightSteps::kUnknown) submit(now, ended);
  return true;
}

void Replay::take_up_epilogue(std::int32_t index) {
  Step& step = open_[static_cast<std::size_t>(index - first_open_)];
  const PreparedStep& prepared = *step.prepared;
  const ActionIndex first = prepared.program.epilogue();
  Lane& lane = *prepared.lanes[static_cast<std::size_t>(first)];
  double& ready = step.states[static_cast<std::size_t>(first)].ready;
  ready = std::max(ready, step.opens);
  if (lane.actions.empty()) runnable_.push_back(&lane);
  for (ActionIndex i = first; i < prepared.program.size(); ++i) lane.actions.push_back({index, i});
}

void Replay::take_up_step() {
  requested_ = kNever;
  if (taken_up_ == steps_->count()) return;
  const std::int32_t index = taken_up_;
  take_up(steps_->graph(index), index);
}

void Replay::take_up(const model::TaskGraph& graph, std::int32_t index, double not_before) {
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
    if (scheduler_ == nullptr || i < prepared.program.epilogue()) {
      lane.actions.push_back({index, i});
      if (lane.actions.size() == 1) runnable_.push_back(&lane);
    }
    state.waits = static_cast<std::int32_t>(prepared.program.dependencies(i).size());
    if (state.waits == 0 && prepared.at(i).kind != model::TaskKind::load) state.ready = not_before;
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
  charge_copies(graph, step);
  step.events.resize(prepared.program.events().size());
  drop_done_steps();
  if (size == 0 && scheduler_ == nullptr) {
    request_step(flows_->now());
  }
}

void Replay::charge_copies(const model::TaskGraph& graph, Step& step) {
  const model::CopiedPositions copied = copies_.next(graph.batch());
  if (!copied.any()) return;
  for (const ActionIndex first : step.prepared->program.first_tasks()) {
    const model::DeviceIndex device = step.prepared->at(first).device;
    step.states[static_cast<std::size_t>(first)].cost.seconds +=
        model::cache_copy_time(*costs_, device, model::copied_bytes(graph, device, copied)).value();
  }
}

void Replay::await_events(std::span<const std::int32_t> events, ActionRef ref, Step::State& state) {
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

void Replay::request_step(double time) {
  if (alone_ || last_taken_up()) return;
  if (time <= flows_->now()) {
    requested_ = kNow;
  } else if (time < requested_) {
    requested_ = time;
    flows_->at(time, [this, awaited = taken_up_] {
      if (taken_up_ == awaited) requested_ = kNow;
      run_lanes();
    });
  }
}

}  // namespace tandem::sim
