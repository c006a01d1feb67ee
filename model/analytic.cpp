#include "model/analytic.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>

#include "model/error.hpp"
#include "model/extension.hpp"
#include "model/program.hpp"

namespace tandem::model {

namespace {

// What an action costs in one shape of graph. A lane is a position in the evaluator's `free_`.
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
    update_costs(graph);
    const std::vector<LaneAction>& actions = program_->actions();
    done_.resize(actions.size());
    const bool first = !has_step_;
    has_step_ = true;
    spans_.resize(std::min(actions.size(), kSpans));
    std::size_t held = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Cost& cost = cost_[i];
      double& lane_free = free_[static_cast<std::size_t>(cost.lane)];
      double start = lane_free;
      double loaded = -std::numeric_limits<double>::infinity();
      if (program_->dependencies(static_cast<ActionIndex>(i)).empty() &&
          actions[i].kind != TaskKind::load)
        start = std::max(start, not_before);
      for (const ActionIndex d : program_->dependencies(static_cast<ActionIndex>(i))) {
        const auto dependency = static_cast<std::size_t>(d);
        if (loads_ && actions[dependency].kind == TaskKind::load) {
          loaded = std::max(loaded, done_[dependency]);
        } else {
          start = std::max(start, done_[dependency]);
        }
      }
      if (!first) start = std::max(start, marked(program_->marks(static_cast<ActionIndex>(i))));
      const double stall = std::max(0.0, loaded - start);
      start = std::max(start, loaded);
      lane_free = start + cost.occupied_s;
      const double end = lane_free + cost.flight_s;
      done_[i] = end;
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
    record(std::span<const Span>(spans_).first(held));
    marks_.clear();
    for (const ActionIndex mark : program_->carried())
      marks_.push_back(done_[static_cast<std::size_t>(mark)]);
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
  [[nodiscard]] StepState state() const { return {free_, marks_}; }
  void set_state(const StepState& state) {
    free_ = state.free;
    marks_ = state.marks;
  }

 private:
  // When the last of these marks of the step before was done.
  [[nodiscard]] double marked(std::span<const std::int32_t> marks) const {
    double last = -std::numeric_limits<double>::infinity();
    for (const std::int32_t mark : marks) {
      const auto m = static_cast<std::size_t>(mark);
      require(m < marks_.size(), "evaluate_analytic: a mark that the step before does not carry");
      last = std::max(last, marks_[m]);
    }
    return last;
  }

  // Only attention depends on `past`; the rest is kept while the graph's shape is the same.
  void update_costs(const TaskGraph& graph) {
    if (program_ && graph.shape() == shape_) {
      for (const std::size_t i : attends_) cost_[i] = cost_of(graph, program_->actions()[i]);
      return;
    }
    shape_ = graph.shape();
    program_.emplace(graph);
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
  std::vector<double> free_;   // when each lane is free; lasts across steps
  std::vector<double> done_;   // when each action of the step is done
  std::vector<double> marks_;  // when those of the step before were
  bool has_step_ = false;
  std::optional<Program> program_;  // of shape_
  std::vector<Cost> cost_;          // of its actions
  std::vector<std::size_t> attends_;
  bool loads_ = false;       // whether any action is a load
  std::vector<Span> spans_;  // not yet recorded
  std::shared_ptr<const char> shape_;
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

void evaluate_scheduled(const Cluster& cluster, const CostModel& costs, Scheduler& scheduler,
                        GraphSource& graphs, RunRecorder& recorder) {
  Evaluator evaluator(cluster, costs);
  double now = 0.0;
  std::int32_t index = 0;
  while (const std::optional<ScheduledStep> step = scheduler.next(now, {})) {
    recorder.submit(*step);
    evaluator.step(
        index++, graphs.graph_of(step->batch),
        [&](std::span<const Span> spans) { recorder.record(spans); }, step->not_before_s);
    now = evaluator.outcome(recorder.master());
  }
}

void extend_analytic(const Cluster& cluster, const CostModel& costs, Steps& steps,
                     RunRecorder& recorder) {
  if (!steps.any_order()) {
    evaluate_analytic(cluster, costs, steps, recorder);
    return;
  }
  BlendRecorder blends(cluster, recorder.master(), recorder);
  AnalyticSteps evaluator(cluster, costs, blends);
  evaluate_extended(steps, evaluator, [&](const StepBlend& blend) { blends.add(blend); });
}

}  // namespace tandem::model
