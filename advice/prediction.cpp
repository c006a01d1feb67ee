#include "advice/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "advice/intervals.hpp"
#include "model/base/statistics.hpp"
#include "model/cluster/variation.hpp"
#include "model/graph/announcement.hpp"
#include "model/predict/analytic.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/search/extrapolation.hpp"
#include "planner/serving/live_trace.hpp"
#include "planner/serving/prefix_sharing.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/replay/replay.hpp"

namespace tandem::study {
namespace {

using model::Result;
using planner::Plan;

using Values = std::map<std::string, std::vector<double>>;  // of the repetitions, by name

// Calls `on_step` for every step that is read.
class ObservedSteps : public model::Steps {
 public:
  ObservedSteps(model::Steps& steps, const std::function<void(std::int32_t, std::int32_t)>& on_step)
      : steps_(steps), on_step_(on_step) {}
  [[nodiscard]] std::int32_t count() const override { return steps_.count(); }
  const model::TaskGraph& graph(std::int32_t i) override {
    if (on_step_) on_step_(i, count());
    return steps_.graph(i);
  }
  [[nodiscard]] bool any_order() const override { return steps_.any_order(); }
  [[nodiscard]] std::optional<std::vector<model::Channel>> channels() override {
    return steps_.channels();
  }

 private:
  model::Steps& steps_;
  const std::function<void(std::int32_t, std::int32_t)>& on_step_;
};

// With `extrapolated`: evaluates as few steps as determine the others, without spans.
void evaluate(const Plan& plan, EvaluatorKind evaluator, model::Steps& steps,
              model::RunRecorder& recorder, bool extrapolated) {
  const auto analytic = extrapolated ? model::extrapolate_analytic : model::evaluate_analytic;
  const auto simgrid = extrapolated ? sim::replay_extrapolated : sim::replay;
  (evaluator == EvaluatorKind::analytic ? analytic : simgrid)(plan.cluster, plan.cost_model(),
                                                              steps, recorder);
}

// Bytes that each device records of all steps.
std::vector<double> records_of(const Plan& plan, planner::GenerationSteps& steps) {
  std::vector<double> bytes(plan.devices.size(), 0.0);
  const auto add = [&](std::int32_t step, std::int32_t times) {
    const std::vector<double> of_step = model::record_bytes(steps.graph(step), bytes.size());
    for (std::size_t d = 0; d < bytes.size(); ++d) bytes[d] += times * of_step[d];
  };
  add(0, 1);
  if (steps.count() > 1) add(1, steps.count() - 1);
  return bytes;
}

// Peak memory of the plan's own workload.
std::vector<model::MemoryUse> one_request_memory(const Plan& plan) {
  return planner::predicted_memory(plan, planner::extents_of(plan.workload.capacity()));
}

// A run with a timeline keeps a record of every task, which counts as its program's.
void set_peak_memory(const Plan& plan, std::vector<model::MemoryUse> memory,
                     const std::vector<double>& timeline, model::RunRecorder& recorder) {
  for (model::DeviceIndex i = 0; i < plan.cluster.size(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    if (!timeline.empty()) memory[d].program += timeline[d];
    recorder.set_peak_memory(i, memory[d]);
  }
}

// The same for the steps of requests: keeps as many graphs as they have structures.
void set_peak_memory(const Plan& plan, const ServedWorkload& served, bool timeline,
                     model::RunRecorder& recorder) {
  std::set<planner::GraphCache::Structure> structures;
  std::vector<double> records(plan.devices.size(), 0.0);
  planner::GraphCache graphs(plan);
  for (const model::ServedStep& step : recorder.served()) {
    structures.insert(planner::GraphCache::structure_of(step.step.batch));
    if (!timeline) continue;
    const std::vector<double> of_step =
        model::record_bytes(graphs.graph_of(step.step.batch), records.size());
    for (std::size_t d = 0; d < records.size(); ++d) records[d] += of_step[d];
  }
  model::Extents extents = planner::serving_extents(planner::serving_capacity(plan, served.steps));
  const std::size_t most = planner::GraphCache::kMost;
  extents.graphs -= static_cast<std::int64_t>(most - std::min(most, structures.size()));
  set_peak_memory(plan, planner::predicted_memory(plan, extents),
                  timeline ? planner::timeline_bytes(plan, records) : std::vector<double>(),
                  recorder);
}

// Sets metrics, devices, links, task kinds and the steady verdict of `result`.
void fill_result(const model::RunRecorder& recorder, Result& result) {
  result.metrics = recorder.metrics();
  result.devices = recorder.devices();
  result.links = recorder.links();
  constexpr double kTolerance = 1e-9;  // a prediction waits or does not
  result.steady = recorder.steady(kTolerance);
  result.task_kinds.clear();
  for (std::size_t i = 0; i < result.devices.size(); ++i) {
    const auto& kinds = recorder.kinds()[i];
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (kinds[k].count > 0)
        result.task_kinds.push_back(
            {result.devices[i].name, static_cast<model::TaskKind>(k), kinds[k]});
    }
  }
}

// The prediction that `recorder` holds, with what identifies it.
Result predicted_result(const Plan& plan, EvaluatorKind evaluator,
                        const model::RunRecorder& recorder) {
  Result result;
  result.origin = model::ResultOrigin::predicted;
  result.evaluator = to_string(evaluator);
  result.plan = {.sha256 = planner::plan_sha256(plan),
                 .strategy = plan.strategy,
                 .model = plan.model.name,
                 .platform = plan.cluster.name()};
  if (evaluator == EvaluatorKind::simgrid) result.environment.merge(sim::network_settings());
  for (std::size_t i = 0; i < plan.profiles.size(); ++i)
    result.environment["profile of " + plan.cluster.devices()[i].name] = plan.profiles[i].source;
  if (std::string guess = planner::extrapolation_remark(plan); !guess.empty())
    result.environment["extrapolated"] = std::move(guess);
  fill_result(recorder, result);
  return result;
}

// Records announcements in the environment: `steps` of this batch, to every other device that
// exchanges messages in `graph`, with the tokens of its rows to devices that embed.
class Announcements {
 public:
  Announcements(const Plan& plan, const model::TaskGraph& graph) {
    std::set<model::DeviceIndex> receivers;
    for (const model::Task& task : graph.tasks()) {
      if (task.lane == model::LaneKind::channel) receivers.insert({task.device, task.peer});
    }
    receivers.erase(plan.master);
    for (const model::DeviceIndex d : receivers)
      embeds_.push_back(plan.devices[static_cast<std::size_t>(d)].share.embedding);
  }
  void add(const model::Batch& batch, std::int64_t steps) {
    for (const bool embeds : embeds_) {
      messages_ += steps;
      bytes_ += steps * model::announcement_bytes(batch, embeds ? batch.rows() : 0);
    }
  }
  void describe(Result& result) const {
    result.environment["announcements"] = std::to_string(messages_);
    result.environment["announcement_bytes"] = std::to_string(bytes_);
  }

 private:
  std::vector<bool> embeds_;  // by device, of those that receive announcements
  std::int64_t messages_ = 0;
  std::int64_t bytes_ = 0;
};

// "mean M p5 A p50 B p95 C p99 D".
std::string spread(const std::vector<double>& values) {
  std::ostringstream text;
  text << std::setprecision(9) << "mean " << model::mean(values);
  for (const auto& [name, q] : {std::pair("p5", 0.05), std::pair("p50", 0.5),
                                std::pair("p95", 0.95), std::pair("p99", 0.99)})
    text << ' ' << name << ' ' << model::quantile(values, q);
  return text.str();
}

// Sets the environment's seed, number of repetitions and spread of `values`.
void describe(const Repetitions& repetitions, const Values& values, Result& result) {
  result.environment["seed"] = std::to_string(repetitions.seed);
  result.environment["repetitions"] = std::to_string(repetitions.count);
  for (const auto& [name, all] : values) result.environment["repetitions: " + name] = spread(all);
}

// `result` has the first repetition. Returns the metrics of all.
std::vector<model::Metrics> repeat(const Plan& plan, const Repetitions& repetitions,
                                   Result& result) {
  Values values;
  std::vector<model::Metrics> all{result.metrics};
  const auto add = [&](const model::Metrics& metrics) {
    if (metrics.token_times_s.empty()) {
      values["time of the pass, s"].push_back(metrics.ttft_s);
      return;
    }
    values["time to first token, s"].push_back(metrics.ttft_s);
    values["time of all tokens, s"].push_back(metrics.token_times_s.back());
    const std::vector<double> gaps = metrics.token_latencies_s();
    if (gaps.empty()) return;
    values["token latency, mean of a run, s"].push_back(model::mean(gaps));
    values["token latency, p99 of a run, s"].push_back(model::quantile(gaps, 0.99));
  };
  add(result.metrics);
  for (std::int64_t i = 1; i < repetitions.count; ++i) {
    planner::GenerationSteps steps(plan);
    model::RunRecorder recorder(plan.cluster, plan.master, false);
    sim::replay_seeded(plan.cluster, plan.cost_model(), steps, recorder,
                       repetitions.seed + static_cast<std::uint64_t>(i));
    add(all.emplace_back(recorder.metrics()));
  }
  describe(repetitions, values, result);
  return all;
}

bool shares_prefixes(const Plan& plan, const ServedWorkload& served) {
  return served.shares_prefixes && planner::prefix_refusal(plan, served.requests).empty();
}

std::unique_ptr<model::Scheduler> scheduler_of(const Plan& plan, const ServedWorkload& served) {
  if (!served.schedule.empty()) return std::make_unique<model::RecordedScheduler>(served.schedule);
  planner::ServingOptions options{.chunk = served.chunk,
                                  .capacity = planner::serving_capacity(plan, served.steps),
                                  .ends = {},
                                  .shares_prefixes = shares_prefixes(plan, served),
                                  .places = planner::CachePlaces(plan)};
  if (served.live)
    return std::make_unique<planner::LiveTrace>(served.requests, *served.policy, options);
  return std::make_unique<planner::RequestScheduler>(served.requests, *served.policy,
                                                     std::move(options));
}

model::RunRecorder evaluate_served(const Plan& plan, const ServedWorkload& served,
                                   const PredictionOptions& options, std::uint64_t seed) {
  model::RunRecorder recorder(plan.cluster, plan.master, options.timeline);
  const std::unique_ptr<model::Scheduler> scheduler = scheduler_of(plan, served);
  planner::GraphCache graphs(plan);
  if (options.evaluator == EvaluatorKind::analytic) {
    model::evaluate_scheduled(plan.cluster, plan.cost_model(), *scheduler, graphs, recorder);
  } else {
    sim::replay_scheduled(plan.cluster, plan.cost_model(), *scheduler, graphs, recorder, seed);
  }
  set_peak_memory(plan, served, options.timeline, recorder);
  return recorder;
}

// `result` has the first repetition. Returns what all say of the requests.
std::vector<Result> repeat_served(const Plan& plan, const ServedWorkload& served,
                                  const PredictionOptions& options, Result& result) {
  Values values;
  std::vector<Result> all{Result{.metrics = result.metrics, .requests = result.requests}};
  const auto add = [&](const Result& one) {
    double first = 0.0;
    double last = 0.0;
    for (const model::RequestResult& request : one.requests) {
      first += request.ttft_s / static_cast<double>(one.requests.size());
      last = std::max(last, request.end_s);
    }
    values["time to first token, mean of the requests, s"].push_back(first);
    values["end of the last request, s"].push_back(last);
    if (one.metrics.throughput_tokens_per_s)
      values["throughput, tokens/s"].push_back(*one.metrics.throughput_tokens_per_s);
  };
  add(result);
  for (std::int64_t i = 1; i < options.repetitions.count; ++i) {
    const std::uint64_t seed = options.repetitions.seed + static_cast<std::uint64_t>(i);
    Result& one = all.emplace_back();
    planner::fill_requests(served.requests, evaluate_served(plan, served, options, seed).served(),
                           one);
    one.schedule.clear();
    add(one);
  }
  describe(options.repetitions, values, result);
  return all;
}

}  // namespace

std::string_view to_string(EvaluatorKind evaluator) {
  switch (evaluator) {
    case EvaluatorKind::simgrid:
      return "simgrid";
    case EvaluatorKind::analytic:
      return "analytic";
  }
  return "";
}

Prediction predict(const Plan& plan, const PredictionOptions& options) {
  planner::GenerationSteps generation(plan);
  ObservedSteps steps(generation, options.on_step);
  model::RunRecorder recorder(plan.cluster, plan.master, options.timeline);
  set_peak_memory(plan, one_request_memory(plan),
                  options.timeline ? planner::timeline_bytes(plan, records_of(plan, generation))
                                   : std::vector<double>(),
                  recorder);
  if (options.repetitions.varies) {
    sim::replay_seeded(plan.cluster, plan.cost_model(), steps, recorder, options.repetitions.seed);
  } else {
    evaluate(plan, options.evaluator, steps, recorder, !options.every_step && !options.timeline);
  }
  Prediction prediction{.result = predicted_result(plan, options.evaluator, recorder), .trace = {}};
  model::set_only_request(prediction.result);
  prediction.result.environment["prompt_tokens"] = std::to_string(plan.workload.prompt_tokens);
  Announcements announcements(plan, generation.graph(0));
  announcements.add(generation.graph(0).batch(), 1);
  if (generation.count() > 1)
    announcements.add(generation.graph(1).batch(), generation.count() - 1);
  announcements.describe(prediction.result);
  std::vector<model::Metrics> repetitions{prediction.result.metrics};
  if (options.repetitions.varies)
    repetitions = repeat(plan, options.repetitions, prediction.result);
  if (options.intervals) set_intervals(plan, repetitions, prediction.result);
  if (options.timeline) prediction.trace = recorder.trace();
  return prediction;
}

Prediction predict_served(const Plan& plan, const ServedWorkload& served,
                          const PredictionOptions& options) {
  const model::RunRecorder recorder =
      evaluate_served(plan, served, options, options.repetitions.seed);
  Prediction prediction{.result = predicted_result(plan, options.evaluator, recorder), .trace = {}};
  Result& result = prediction.result;
  planner::fill_requests(served.requests, recorder.served(), result);
  if (shares_prefixes(plan, served) || model::shares_prefixes(served.schedule)) {
    planner::set_prefix_hits(result);
    result.environment["prefix_cache"] = "on";
  }
  result.weights_sha256 = served.weights_sha256;
  planner::GenerationSteps generation(plan);
  Announcements announcements(plan, generation.graph(0));
  for (const model::ServedStep& step : recorder.served()) announcements.add(step.step.batch, 1);
  announcements.describe(result);
  if (served.policy != nullptr) result.environment["policy"] = served.policy->name;
  result.environment["schedule"] = served.schedule.empty() ? "by the policy" : "of a run";
  if (served.chunk > 0) result.environment["chunk"] = std::to_string(served.chunk);
  if (served.schedule.empty()) {
    const std::int64_t steps = planner::serving_capacity(plan, served.steps).steps;
    if (steps > 1) result.environment["in_flight"] = std::to_string(steps);
  }
  std::vector<Result> repetitions{Result{.metrics = result.metrics, .requests = result.requests}};
  if (options.repetitions.varies) repetitions = repeat_served(plan, served, options, result);
  if (options.intervals)
    set_served_intervals(plan, served.requests, recorder.served(), repetitions, result);
  if (options.timeline) prediction.trace = recorder.trace();
  return prediction;
}

Result predict_served_fairly(const Plan& plan, const ServedWorkload& served) {
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  const std::unique_ptr<model::Scheduler> scheduler = scheduler_of(plan, served);
  planner::GraphCache graphs(plan);
  sim::evaluate_fair_scheduled(plan.cluster, plan.cost_model(), *scheduler, graphs, recorder);
  Result result;
  planner::fill_requests(served.requests, recorder.served(), result);
  return result;
}

Result predict_fairly(Plan plan, const ServedWorkload* served, bool with_memory) {
  plan.cluster = model::without_variation(plan.cluster);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  Result result;
  if (served != nullptr) {
    const std::unique_ptr<model::Scheduler> scheduler = scheduler_of(plan, *served);
    planner::GraphCache graphs(plan);
    sim::evaluate_fair_scheduled(plan.cluster, plan.cost_model(), *scheduler, graphs, recorder);
    planner::fill_requests(served->requests, recorder.served(), result);
    set_served_intervals(plan, served->requests, recorder.served(), {&result, 1}, result);
    if (with_memory) set_peak_memory(plan, *served, false, recorder);
    result.devices = recorder.devices();
    return result;
  }
  planner::GenerationSteps steps(plan);
  sim::extend_fair(plan.cluster, plan.cost_model(), steps, recorder);
  if (with_memory) set_peak_memory(plan, one_request_memory(plan), {}, recorder);
  result.metrics = recorder.metrics();
  result.devices = recorder.devices();
  model::set_only_request(result);
  set_intervals(plan, {&result.metrics, 1}, result);
  return result;
}

void check_memory(const Plan& plan, const ServedWorkload* served, bool timeline) {
  if (served == nullptr) {
    const model::Extents extents = planner::extents_of(plan.workload.capacity());
    planner::check_budgets(plan, planner::predicted_memory(plan, extents),
                           "simulate: " + std::to_string(plan.workload.prompt_tokens) +
                               " prompt and " + std::to_string(plan.workload.new_tokens) +
                               " new tokens need",
                           "plan for this platform");
    if (!timeline) return;
    planner::GenerationSteps steps(plan);
    planner::check_timeline_budgets(
        plan, extents, planner::timeline_bytes(plan, records_of(plan, steps)),
        "simulate: a timeline of " + std::to_string(plan.workload.new_tokens) + " new tokens");
    return;
  }
  const planner::Capacity capacity = planner::serving_capacity(plan, served->steps);
  const model::Extents extents = planner::serving_extents(capacity);
  planner::check_budgets(plan, planner::predicted_memory(plan, extents),
                         "simulate: " + to_text(capacity) + ", need", "plan for these requests");
  if (!timeline) return;
  const std::int64_t most = served->schedule.empty()
                                ? planner::most_steps(served->requests, served->chunk, capacity)
                                : std::ssize(served->schedule);
  planner::check_timeline_budgets(
      plan, extents, planner::timeline_bytes(plan, planner::most_records(plan, capacity, most)),
      "simulate: a timeline of up to " + std::to_string(most) + " steps");
}

namespace {

// Spans of more steps take gigabytes, and what long prompts wait for changes slowly.
constexpr std::size_t kMostTracedSteps = 256;

// The steps that a scheduler gives one request, whatever they take.
std::vector<model::ScheduledStep> steps_of(model::Scheduler& scheduler) {
  std::vector<model::ScheduledStep> steps;
  std::vector<model::StepOutcome> ended;
  std::int32_t first = 0;  // in flight
  for (double now = 0.0;;) {
    model::Decision decision = scheduler.next(now, ended);
    ended.clear();
    if (decision.step) {
      steps.push_back(std::move(*decision.step));
    } else if (first < std::ssize(steps)) {
      ended.push_back({.step = first++, .tokens = {}});
    } else if (std::isfinite(decision.until_s)) {
      now = decision.until_s;
    } else {
      return steps;
    }
  }
}

// Leaves out the first steps of a prompt, where there are more than are traced.
void keep_last_of_prompt(std::vector<model::ScheduledStep>& steps) {
  const auto samples = std::ranges::find_if(steps, [](const model::ScheduledStep& step) {
    return std::ranges::any_of(step.batch.segments,
                               [](const model::Segment& segment) { return segment.sampled > 0; });
  });
  const auto of_prompt = static_cast<std::size_t>(samples - steps.begin()) + 1;
  if (samples == steps.end() || of_prompt <= kMostTracedSteps) return;
  const auto left_out = static_cast<std::ptrdiff_t>(of_prompt - kMostTracedSteps);
  steps.erase(steps.begin(), steps.begin() + left_out);
  for (model::ScheduledStep& step : steps) {
    step.not_before_s = 0.0;
    step.ended = std::max(0, step.ended - static_cast<std::int32_t>(left_out));
  }
}

}  // namespace

model::Bottleneck bottleneck_of(Plan plan, EvaluatorKind evaluator, const ServedWorkload* served) {
  plan.cluster = model::without_variation(plan.cluster);
  const model::CostModel costs = plan.cost_model();
  const model::Evaluated run{plan.cluster, costs, plan.master};
  const bool is_analytic = evaluator == EvaluatorKind::analytic;
  if (served != nullptr) {
    ServedWorkload two = *served;
    for (planner::InferenceRequest& request : two.requests)
      request.new_tokens = std::min<std::int64_t>(2, request.new_tokens);
    two.schedule = steps_of(*scheduler_of(plan, two));
    keep_last_of_prompt(two.schedule);
    model::RunRecorder recorder(plan.cluster, plan.master, true);
    const std::unique_ptr<model::Scheduler> scheduler = scheduler_of(plan, two);
    planner::GraphCache graphs(plan);
    (is_analytic ? model::evaluate_scheduled : sim::evaluate_fair_scheduled)(
        plan.cluster, costs, *scheduler, graphs, recorder);
    planner::ScheduledSteps steps(plan, std::move(two.schedule));
    return model::find_bottleneck(run, steps, recorder.trace());
  }
  planner::Workload workload = plan.workload;
  workload.new_tokens = std::min<std::int64_t>(2, workload.new_tokens);
  planner::GenerationSteps steps(plan, workload);
  model::RunRecorder recorder(plan.cluster, plan.master, true);
  (is_analytic ? model::evaluate_analytic : sim::evaluate_fair)(plan.cluster, costs, steps,
                                                                recorder);
  return model::find_bottleneck(run, steps, recorder.trace());
}

}  // namespace tandem::study
