#pragma once

// One run over the lanes of a cluster. Private to sim/.

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "model/graph/cache_copies.hpp"
#include "model/graph/in_flight_steps.hpp"
#include "model/graph/scheduler.hpp"
#include "model/predict/analytic.hpp"
#include "model/predict/cost_model.hpp"
#include "model/predict/program.hpp"
#include "model/predict/step_extrapolation.hpp"
#include "model/report/trace.hpp"
#include "sim/network/flows.hpp"
#include "sim/replay/frames.hpp"
#include "sim/replay/replay_steps.hpp"

namespace tandem::sim {

// A run of steps as model/predict/program.hpp defines them. The end of a cpu or disk action follows
// from its start, so it is computed as soon as the start is known, ahead of the clock of `flows`,
// which carries the messages' bytes, the only contended resource. The next step is submitted when
// the first lane has nothing left to do. Example: while a message of step 4 is in flight, the
// sender's cpu lane may have computed all of step 5, whose times are then ahead of that clock.
class Replay : public model::StepEvaluator {
 public:
  // `steps` are null if a scheduler or run() supplies them. All arguments outlive the replay.
  Replay(const model::Cluster& cluster, const model::CostModel& costs, model::Steps* steps,
         Flows& flows, Output& output, std::uint64_t seed);
  // A run driven by `scheduler`.
  Replay(const model::Cluster& cluster, const model::CostModel& costs, model::Scheduler& scheduler,
         model::GraphSource& graphs, model::DeviceIndex master, Flows& flows, Output& output,
         std::uint64_t seed);

  // Runs all steps of the scheduler.
  void run_scheduled();
  // Runs all of `steps`.
  void run_all();
  // Runs one step alone, which must leave nothing in flight at its end and send nothing before its
  // begin (drains): then the flows are independent of the neighbouring steps.
  Outcome run(const model::TaskGraph& graph, std::int32_t number, const model::Decisions* expected,
              model::Decisions& made) override;
  [[nodiscard]] const model::StepState& state() const override { return state_; }
  void set_state(const model::StepState& state) override { state_ = state; }

 private:
  // Taking up steps (replay_take_up.cpp).

  [[nodiscard]] Lane& lane_of(const model::LaneAction& action);
  // Returns the prepared step for `graph`, and makes it the last of prepared_. Only attention
  // depends on `past`.
  [[nodiscard]] std::shared_ptr<const PreparedStep> prepared_of(const model::TaskGraph& graph);
  // Submits all steps that the scheduler returns now.
  void submit(double now, std::span<const model::StepOutcome> ended);
  // Handles the events of the steps in flight up to now. Returns whether there were any. With
  // several steps, collects all events of a moment before handling them.
  bool pass_moment();
  void take_up_epilogue(std::int32_t index);
  void take_up_step();
  // Tasks without dependencies start at `not_before` or later, loads excepted.
  void take_up(const model::TaskGraph& graph, std::int32_t index, double not_before = 0.0);
  // Adds copies on write to the step's first tasks.
  void charge_copies(const model::TaskGraph& graph, Step& step);
  // Makes the action wait for events of the step before its own that are not done.
  void await_events(std::span<const std::int32_t> events, ActionRef ref, Step::State& state);
  // Requests the next step at `time`, unless it has been submitted by then.
  void request_step(double time);

  // Running lanes (replay_run.cpp).

  void run_runnable();
  void run_lanes();
  void run_lane(Lane& lane);
  // Returns the end of an action of a cpu or disk lane that begins at `start`; for a message, the
  // end of what precedes its bytes.
  [[nodiscard]] double end_of(const model::LaneAction& action, double start, double seconds) const;
  // Returns the arrival of the message whose last byte leaves at `time`. Messages keep their order.
  double arrival(Lane& lane, double bytes, double time) const;
  // Occupies the channel from `start`; the first byte leaves at `first_byte`.
  void send(Lane& lane, double start, double first_byte, double bytes);
  // Ends the sending of the message in `lane` at `time`.
  void sent(Lane& lane, double time);
  // Removes the first action of `lane` at `time`, possibly ahead of the clock.
  void leave(Lane& lane, double start, double time);
  // Ends one of the actions that the step's epilogue waits for.
  void end_opening(Step& step, std::int32_t index, double end);
  void record(const model::Span& span, std::size_t action, double left, double first_byte);
  // Keeps the last submitted step until the next one has its events.
  void drop_done_steps();

  [[nodiscard]] bool last_taken_up() const {
    return scheduler_ != nullptr ? in_flight_.over() : taken_up_ == steps_->count();
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
  Output* output_;
  Flows* flows_;
  std::vector<Lane*> channels_;  // by number in flows_
  std::unordered_map<std::uint64_t, Lane> lanes_;
  model::CacheCopies copies_;
  std::vector<std::shared_ptr<PreparedStep>> prepared_;  // most recent last
  std::deque<Step> open_;                                // submitted and not done
  std::vector<Lane*> runnable_;
  std::int32_t first_open_ = 0;  // index of open_'s first
  std::int32_t taken_up_ = 0;
  double requested_ = kNever;  // the time of the next submission

  // For runs driven by a scheduler:
  model::Scheduler* scheduler_ = nullptr;
  model::GraphSource* graphs_ = nullptr;
  model::DeviceIndex master_ = 0;
  model::InFlightSteps in_flight_;
  double timer_ = 0.0;  // the latest expired timer
  double armed_ = 0.0;  // the timer set last

  // For steps that run alone:
  bool alone_ = false;
  double origin_ = 0.0;  // on the clock of flows_, of the step
  model::StepState state_;
  model::StepTimes times_;
  std::vector<double> first_byte_;  // of messages, by task
  std::vector<double> last_byte_;
};

}  // namespace tandem::sim
