#include "model/predict/analytic.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>

#include "model/base/error.hpp"
#include "model/graph/cache_copies.hpp"
#include "model/graph/in_flight_steps.hpp"
#include "model/predict/program.hpp"
#include "model/predict/step_extrapolation.hpp"

namespace tandem::model {

namespace {

// What an action costs in one structure of graph. A lane is a position in the evaluator's `free_`.
struct Cost {
  std::int32_t lane = 0;
  double occupied_s = 0.0;  // how long the lane is taken
  double flight_s = 0.0;    // from then on until it is done: the latency of a message
  double bytes = 0.0;
  double flops = 0.0;
};

class Evaluator {
 public:
  Evaluator(const Cluster& cluster, const CostModel& costs) : cluster_(cluster), costs_(costs) {}

  // Hands the spans on to `record`, many at once. What depends on nothing starts at `not_before` or
  // later, loads excepted.
  template <class Record>
  void step(std::int32_t index, const TaskGraph& graph, const Record& record,
            double not_before = 0.0) {
    begin(index, graph, record, not_before);
    run(*program_, cost_, done_, index, {program_->epilogue(), program_->size()}, record,
        not_before);
    record_events(*program_, done_);
  }

  // What a step in flight needs in addition to its epilogue.
  struct Begun {
    std::int32_t index = 0;
    std::shared_ptr<const Program> program;
    std::vector<Cost> epilogue_cost;  // by action, from the epilogue on
    std::vector<double> done;         // by action
    double opens = 0.0;               // when what the epilogue waits for is there
    double outcome = 0.0;             // set by finish(), or without one by begin()
  };
  // The same in two calls, between which other steps may begin.
  template <class Record>
  Begun begin(std::int32_t index, const TaskGraph& graph, const Record& record, double not_before,
              DeviceIndex master) {
    begin(index, graph, record, not_before);
    const auto epilogue = static_cast<std::size_t>(program_->epilogue());
    Begun begun{.index = index,
                .program = program_,
                .epilogue_cost = {cost_.begin() + program_->epilogue(), cost_.end()},
                .done = done_,
                .opens = not_before,
                .outcome = 0.0};
    for (std::size_t i = epilogue; i < done_.size(); ++i) {
      for (const ActionIndex d : program_->dependencies(static_cast<ActionIndex>(i))) {
        if (d < program_->epilogue())
          begun.opens = std::max(begun.opens, done_[static_cast<std::size_t>(d)]);
      }
    }
    if (epilogue == done_.size()) begun.outcome = outcome(master);
    for (const ActionIndex event : program_->events())
      require(event < program_->epilogue(), "evaluate_scheduled: an epilogue records no events");
    record_events(*program_, done_);
    return begun;
  }
  template <class Record>
  void finish(Begun& begun, const Record& record, DeviceIndex master) {
    const Program& program = *begun.program;
    std::vector<Cost> cost(static_cast<std::size_t>(program.epilogue()));
    cost.insert(cost.end(), begun.epilogue_cost.begin(), begun.epilogue_cost.end());
    double& lane_free = free_[static_cast<std::size_t>(begun.epilogue_cost.front().lane)];
    lane_free = std::max(lane_free, begun.opens);
    loads_ = true;  // perhaps
    run(program, cost, begun.done, begun.index, {program.epilogue(), program.size()}, record,
        begun.opens);
    begun.outcome = begun.done[static_cast<std::size_t>(outcome_of(program, master))];
  }

  // When the scheduler knows the outcome of the last step.
  [[nodiscard]] double outcome(DeviceIndex master) const {
    return done_[static_cast<std::size_t>(outcome_of(*program_, master))];
  }
  // Of the last step.
  [[nodiscard]] const Program& program() const { return *program_; }
  [[nodiscard]] StepTimes times() const {
    StepTimes times;
    times.done = done_;
    times.lane.reserve(cost_.size());
    times.left.reserve(cost_.size());
    for (std::size_t i = 0; i < cost_.size(); ++i) {
      times.lane.push_back(cost_[i].lane);
      times.left.push_back(done_[i] - cost_[i].flight_s);
    }
    return times;
  }
  [[nodiscard]] StepState state() const { return {free_, events_}; }
  void set_state(const StepState& state) {
    free_ = state.free;
    events_ = state.events;
  }

 private:
  // All but the epilogue.
  template <class Record>
  void begin(std::int32_t index, const TaskGraph& graph, const Record& record, double not_before) {
    update_costs(graph);
    charge_copies(graph);
    done_.resize(program_->actions().size());
    run(*program_, cost_, done_, index, {0, program_->epilogue()}, record, not_before);
    has_step_ = true;
  }

  // Actions [range.begin, range.end) of a step.
  template <class Record>
  void run(const Program& program, const std::vector<Cost>& costs, std::vector<double>& done,
           std::int32_t index, Range range, const Record& record, double not_before) {
    const std::vector<LaneAction>& actions = program.actions();
    const bool first = !has_step_;
    const auto begin = static_cast<std::size_t>(range.begin);
    const auto epilogue = static_cast<std::size_t>(range.end);
    spans_.resize(std::min(actions.size(), kSpans));
    std::size_t held = 0;
    for (std::size_t i = begin; i < epilogue; ++i) {
      const Cost& cost = costs[i];
      double& lane_free = free_[static_cast<std::size_t>(cost.lane)];
      double start = lane_free;
      double loaded = -std::numeric_limits<double>::infinity();
      if (program.dependencies(static_cast<ActionIndex>(i)).empty() &&
          actions[i].kind != TaskKind::load)
        start = std::max(start, not_before);
      for (const ActionIndex d : program.dependencies(static_cast<ActionIndex>(i))) {
        const auto dependency = static_cast<std::size_t>(d);
        if (loads_ && actions[dependency].kind == TaskKind::load) {
          loaded = std::max(loaded, done[dependency]);
        } else {
          start = std::max(start, done[dependency]);
        }
      }
      if (!first)
        start = std::max(start, last_event(program.awaited_events(static_cast<ActionIndex>(i))));
      const double stall = std::max(0.0, loaded - start);
      start = std::max(start, loaded);
      lane_free = start + cost.occupied_s;
      const double end = lane_free + cost.flight_s;
      done[i] = end;
      Span& span = spans_[held++];
      span = span_of(actions[i], index);
      span.start = start;
      span.end = end;
      span.bytes = cost.bytes;
      span.flops = cost.flops;
      span.stall = stall;
      if (held < spans_.size()) continue;
      record(std::span<const Span>(spans_));
      held = 0;
    }
    if (held > 0) record(std::span<const Span>(spans_).first(held));
  }

  void record_events(const Program& program, const std::vector<double>& done) {
    events_.clear();
    for (const ActionIndex event : program.events())
      events_.push_back(done[static_cast<std::size_t>(event)]);
  }

  // When the last of these events of the step before was done.
  [[nodiscard]] double last_event(std::span<const std::int32_t> events) const {
    double last = -std::numeric_limits<double>::infinity();
    for (const std::int32_t event : events) {
      const auto m = static_cast<std::size_t>(event);
      require(m < events_.size(),
              "evaluate_analytic: an event that the step before did not record");
      last = std::max(last, events_[m]);
    }
    return last;
  }

  // Copies on write, to the first tasks of this step alone.
  void charge_copies(const TaskGraph& graph) {
    const CopiedPositions copied = copies_.next(graph.batch());
    if (!copied.any()) return;
    for (const ActionIndex first : program_->first_tasks()) {
      const auto i = static_cast<std::size_t>(first);
      const DeviceIndex device = program_->actions()[i].device;
      charged_.emplace_back(i, cost_[i].occupied_s);
      cost_[i].occupied_s +=
          cache_copy_time(costs_, device, copied_bytes(graph, device, copied)).value();
    }
  }

  // Only attention depends on `past`; the rest is kept while the graph's structure is the same.
  void update_costs(const TaskGraph& graph) {
    for (const auto& [i, occupied_s] : charged_) cost_[i].occupied_s = occupied_s;
    charged_.clear();
    if (program_ && graph.structure() == structure_) {
      for (const std::size_t i : attends_) cost_[i] = cost_of(graph, program_->actions()[i]);
      return;
    }
    structure_ = graph.structure();
    program_ = std::make_shared<const Program>(graph);
    attends_.clear();
    loads_ = false;
    const std::vector<LaneAction>& actions = program_->actions();
    cost_.resize(actions.size());
    for (std::size_t i = 0; i < actions.size(); ++i) {
      cost_[i] = cost_of(graph, actions[i]);
      if (actions[i].kind == TaskKind::attend) attends_.push_back(i);
      loads_ = loads_ || actions[i].kind == TaskKind::load;
    }
  }

  Cost cost_of(const TaskGraph& graph, const LaneAction& action) {
    const ActionCost own = action_cost(cluster_, costs_, graph, action);
    Cost cost{
        .lane = lane_of(action), .occupied_s = own.seconds, .bytes = own.bytes, .flops = own.flops};
    if (action.lane == LaneKind::channel) {
      const Route& route = cluster_.route(action.device, action.peer);
      cost.occupied_s += (Bytes{own.bytes} / route.bandwidth).value();
      cost.flight_s = route.latency.value();
    }
    return cost;
  }

  std::int32_t lane_of(const LaneAction& action) {
    // A channel's receiver is at least 0, so cpu and disk take the two values below.
    const std::int64_t what = action.lane == LaneKind::channel ? std::int64_t{action.peer}
                              : action.lane == LaneKind::cpu   ? -1
                                                               : -2;
    const std::int64_t key = (std::int64_t{action.device} << 32) + what;
    const auto [lane, is_new] = lanes_.try_emplace(key, static_cast<std::int32_t>(free_.size()));
    if (is_new) free_.push_back(0.0);
    return lane->second;
  }

  static constexpr std::size_t kSpans = 128;  // recorded at once: few enough to stay in a cache

  const Cluster& cluster_;
  const CostModel& costs_;
  std::unordered_map<std::int64_t, std::int32_t> lanes_;
  std::vector<double> free_;    // when each lane is free; lasts across steps
  std::vector<double> done_;    // when each action of the step is done
  std::vector<double> events_;  // when those of the step before were
  bool has_step_ = false;
  std::shared_ptr<const Program> program_;  // of structure_
  std::vector<Cost> cost_;                  // of its actions
  std::vector<std::size_t> attends_;
  CacheCopies copies_;
  std::vector<std::pair<std::size_t, double>> charged_;  // first tasks, and what they take without
  bool loads_ = false;                                   // whether any action may be a load
  std::vector<Span> spans_;                              // not yet recorded
  std::shared_ptr<const char> structure_;
};

// One step at a time, each from its own origin.
class AnalyticSteps : public StepEvaluator {
 public:
  AnalyticSteps(const Cluster& cluster, const CostModel& costs, BlendRecorder& recorder)
      : evaluator_(cluster, costs), recorder_(recorder) {}

  Outcome run(const TaskGraph& graph, std::int32_t number, const Decisions* expected,
              Decisions& made) override {
    evaluator_.step(number, graph, [&](std::span<const Span> spans) { recorder_.record(spans); });
    const StepTimes times = evaluator_.times();
    const bool as_expected = decide(evaluator_.program(), state_, times, expected, made);
    state_ = evaluator_.state();
    const double length = end_step(evaluator_.program(), times, state_);
    evaluator_.set_state(state_);
    return {.length = length, .as_expected = as_expected};
  }
  [[nodiscard]] const StepState& state() const override { return state_; }
  void set_state(const StepState& state) override {
    state_ = state;
    evaluator_.set_state(state);
  }

 private:
  Evaluator evaluator_;
  BlendRecorder& recorder_;
  StepState state_;
};

}  // namespace

std::vector<Channel> channels_of(std::span<const TaskGraph* const> graphs) {
  std::set<Channel> channels;
  for (const TaskGraph* graph : graphs) {
    for (const Task& task : graph->tasks()) {
      if (task.lane == LaneKind::channel) channels.emplace(task.device, task.peer);
    }
  }
  return {channels.begin(), channels.end()};
}

void evaluate_analytic(const Cluster& cluster, const CostModel& costs, Steps& steps,
                       RunRecorder& recorder) {
  Evaluator evaluator(cluster, costs);
  for (std::int32_t i = 0; i < steps.count(); ++i) {
    evaluator.step(i, steps.graph(i), [&](std::span<const Span> spans) { recorder.record(spans); });
  }
}

namespace {

class ScheduledRun {
 public:
  ScheduledRun(const Cluster& cluster, const CostModel& costs, Scheduler& scheduler,
               GraphSource& graphs, RunRecorder& recorder)
      : evaluator_(cluster, costs),
        scheduler_(scheduler),
        graphs_(graphs),
        recorder_(recorder),
        record_([&recorder](std::span<const Span> spans) { recorder.record(spans); }) {}

  void run() {
    submit(0.0, {});
    while (!in_flight_.over()) {
      const double first = in_flight_.next();
      require(std::isfinite(first), "evaluate_scheduled: steps in flight without an outcome");
      const double last = first + same_moment(first);
      for (const std::int32_t step : in_flight_.take_epilogues(last)) finish(step);
      double now = InFlightSteps::kUnknown;
      const std::vector<StepOutcome> ended = in_flight_.take_outcomes(last, now);
      if (std::isfinite(now)) submit(now, ended);
    }
  }

 private:
  // All that the scheduler gives now.
  void submit(double now, std::span<const StepOutcome> ended) {
    while (true) {
      const Decision decision = scheduler_.next(now, ended);
      ended = {};
      in_flight_.set_until(decision.until_s);
      if (!decision.step) return;
      recorder_.submit(*decision.step);
      const std::int32_t step = in_flight_.count();
      in_flight_.submit();
      Evaluator::Begun begun =
          evaluator_.begin(step, graphs_.graph_of(decision.step->batch), record_,
                           decision.step->not_before_s, recorder_.master());
      if (begun.epilogue_cost.empty()) {
        in_flight_.set_outcome(step, begun.outcome);
      } else {
        in_flight_.set_opens(step, begun.opens);
        begun_.push_back(std::move(begun));
      }
    }
  }

  void finish(std::int32_t step) {
    const auto begun = std::ranges::find(begun_, step, &Evaluator::Begun::index);
    evaluator_.finish(*begun, record_, recorder_.master());
    in_flight_.set_outcome(step, begun->outcome);
    begun_.erase(begun);
  }

  Evaluator evaluator_;
  Scheduler& scheduler_;
  GraphSource& graphs_;
  RunRecorder& recorder_;
  std::function<void(std::span<const Span>)> record_;
  InFlightSteps in_flight_;
  std::vector<Evaluator::Begun> begun_;  // steps whose epilogue has not been taken up
};

}  // namespace

void evaluate_scheduled(const Cluster& cluster, const CostModel& costs, Scheduler& scheduler,
                        GraphSource& graphs, RunRecorder& recorder) {
  ScheduledRun(cluster, costs, scheduler, graphs, recorder).run();
}

void extrapolate_analytic(const Cluster& cluster, const CostModel& costs, Steps& steps,
                          RunRecorder& recorder) {
  if (!steps.any_order()) {
    evaluate_analytic(cluster, costs, steps, recorder);
    return;
  }
  BlendRecorder blends(cluster, recorder.master(), recorder);
  AnalyticSteps evaluator(cluster, costs, blends);
  evaluate_extrapolated(steps, evaluator, [&](const StepBlend& blend) { blends.add(blend); });
}

}  // namespace tandem::model
