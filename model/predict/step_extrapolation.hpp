#pragma once

// Steps that go on as the ones before did are computed, not evaluated.
//
// A step's times, those of captures and deliveries among them (a Program's actions), are made of
// its costs and of what the step before left (the state: when each lane is free, when each event
// was) by sums and maxima, and, on shared links, by rates that change at events. While every
// maximum is decided equally and the events come in the same order (the decisions), all times are
// affine functions of state and costs; decoding's costs are affine in the number of positions
// before it. The states and costs for which given decisions are the right ones form a convex set
// (each decision is an inequality between affine functions). So, with s(n) the state before step n,
// relative to the end of the step before:
//   if steps a and a + 1 decide equally and s(a), s(a + 1), s(a + 2) lie on a line,
//   and step b, evaluated from the point of that line that is n = b, decides equally too,
//   then every step between does, its state is on the line, and all its times, sums and counts are
//   linear interpolations between those of a and b.
// So it is with p steps at once (a period of p tokens). Jumps go to the last step first, then half
// as far. Where nothing can be shown, steps are evaluated one by one.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/predict/program.hpp"
#include "model/report/trace.hpp"

namespace tandem::model {

class Steps;

// A maximum counts as decided for a candidate that is less by at most so much of the step's time:
// ties may go either way. Errors of a step are at most this times its longest chain of tasks.
inline constexpr double kTie = 1e-13;

// What a step decided: by action, which candidate its start waited for longest, among loads and
// among all else, and whether the loads came last.
struct Decisions {
  static constexpr std::int32_t kLane = -1;  // else a dependency, or -2 - event
  std::vector<std::int32_t> start{};
  std::vector<std::int32_t> load{};
  std::vector<bool> stalls{};
  std::uint64_t order = 0;  // of events, if the evaluator has any: equal if the order is
};

// One evaluated step: by action, when it was done, and when it left its lane; relative to the
// start.
struct StepTimes {
  std::vector<std::int32_t> lane{};  // a number for each lane
  std::vector<double> done{};
  std::vector<double> left{};
};
struct StepState {
  std::vector<double> free{};  // by lane number
  std::vector<double> events{};
};

// Returns whether `times` of `program`, from `before`, are decided as `expected` says; true if
// `expected` is null. What they decide goes to `made`.
[[nodiscard]] bool decide(const Program& program, const StepState& before, const StepTimes& times,
                          const Decisions* expected, Decisions& made);

// Returns the length of a step with these times, and has `state` counted from its end. Lanes that
// the step does not use count as free then, so later steps must not use them while that is in
// doubt.
double end_step(const Program& program, const StepTimes& times, StepState& state);

// Step `step`, that begins at `base` seconds, is (1 - t) of evaluated step `a` and t of `b`.
// Evaluated steps have numbers of their own, counted from 0; none below `keep_from` is named later.
struct StepBlend {
  std::int32_t a = 0;
  std::int32_t b = 0;
  std::int32_t step = 0;
  std::int32_t keep_from = 0;
  double t = 0.0;
  double base = 0.0;
};

// What an evaluator does for evaluate_extrapolated.
class StepEvaluator {
 public:
  struct Outcome {
    double length = 0.0;  // from the end of the step before to the end of this one
    bool as_expected = true;
  };
  virtual ~StepEvaluator() = default;
  // Evaluates a step from the state, handing on its spans with `number` as their step and times
  // relative to the end of the step before. The state becomes that after it. A step ends when its
  // last sample does, or its last task if it has none.
  virtual Outcome run(const TaskGraph& graph, std::int32_t number, const Decisions* expected,
                      Decisions& made) = 0;
  [[nodiscard]] virtual const StepState& state() const = 0;
  virtual void set_state(const StepState& state) = 0;
};

// Evaluates `steps`, whose graph() must take any order, as far as needed, and says by `blend` what
// each step of the run is made of, in order.
void evaluate_extrapolated(Steps& steps, StepEvaluator& evaluator,
                           const std::function<void(const StepBlend&)>& blend);

// Makes a run out of evaluated steps and blends.
class BlendRecorder {
 public:
  BlendRecorder(const Cluster& cluster, DeviceIndex master, RunRecorder& run)
      : cluster_(&cluster), master_(master), run_(&run) {}
  // Takes spans of evaluated steps, whose numbers are their `step`.
  void record(std::span<const Span> spans);
  void add(const StepBlend& blend);

 private:
  const Cluster* cluster_;
  DeviceIndex master_;
  RunRecorder* run_;
  std::map<std::int32_t, RunRecorder> evaluated_;
};

}  // namespace tandem::model
