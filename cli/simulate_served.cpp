#include "cli/simulate_served.hpp"

#include <cmath>
#include <iomanip>
#include <memory>
#include <numeric>
#include <ostream>
#include <sstream>
#include <utility>

#include "cli/files.hpp"
#include "cli/models.hpp"
#include "cli/report.hpp"
#include "cli/version.hpp"
#include "model/analytic.hpp"
#include "model/error.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/shape_cache.hpp"
#include "sim/replay.hpp"

namespace tandem::cli {
namespace {

using model::Result;
using planner::Plan;

// "mean M p5 A p50 B p95 C p99 D".
std::string spread(const std::vector<double>& values) {
  std::ostringstream text;
  text << std::setprecision(9) << "mean "
       << std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  for (const auto& [name, q] : {std::pair("p5", 0.05), std::pair("p50", 0.5),
                                std::pair("p95", 0.95), std::pair("p99", 0.99)})
    text << ' ' << name << ' ' << model::quantile(values, q);
  return text.str();
}

std::unique_ptr<model::Scheduler> scheduler_of(const Plan& plan, const ServedRun& run) {
  if (!run.schedule.empty()) return std::make_unique<model::RecordedScheduler>(run.schedule);
  return std::make_unique<planner::RequestScheduler>(
      run.served.requests, *run.served.policy,
      planner::ServingOptions{.chunk = run.served.chunk, .capacity = plan.reserved(), .ends = {}});
}

model::RunRecorder predict(const Plan& plan, const ServedRun& run, const Simulation& how,
                           std::uint64_t seed) {
  model::RunRecorder recorder(plan.cluster, plan.master, how.trace.has_value());
  for (model::DeviceIndex i = 0; i < plan.cluster.size(); ++i)
    recorder.set_peak_memory(i, plan.devices[static_cast<std::size_t>(i)].memory);
  const std::unique_ptr<model::Scheduler> scheduler = scheduler_of(plan, run);
  planner::ShapeCache graphs(plan);
  if (how.evaluator == "analytic") {
    model::evaluate_scheduled(plan.cluster, plan.cost_model(), *scheduler, graphs, recorder);
  } else {
    sim::replay_scheduled(plan.cluster, plan.cost_model(), *scheduler, graphs, recorder, seed);
  }
  return recorder;
}

// The first repetition is in `result`.
void repeat(const Plan& plan, const ServedRun& run, const Simulation& how, Result& result) {
  std::map<std::string, std::vector<double>> values;
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
  for (std::int64_t i = 1; i < how.repetitions.count; ++i) {
    Result one;
    planner::fill_requests(
        run.served.requests,
        predict(plan, run, how, how.repetitions.seed + static_cast<std::uint64_t>(i)).served(),
        one);
    add(one);
  }
  describe(how.repetitions, values, result);
}

}  // namespace

void describe(const Repetitions& repetitions,
              const std::map<std::string, std::vector<double>>& values, Result& result) {
  result.environment["seed"] = std::to_string(repetitions.seed);
  result.environment["repetitions"] = std::to_string(repetitions.count);
  for (const auto& [name, all] : values) result.environment["repetitions: " + name] = spread(all);
}

void print_repetitions(const Result& result, std::ostream& out) {
  bool first = true;
  for (const auto& [name, text] : result.environment) {
    if (name.rfind("repetitions: ", 0) != 0) continue;
    if (first) {
      out << "\nover " << result.environment.at("repetitions") << " repetitions from seed "
          << result.environment.at("seed") << "\n";
    }
    first = false;
    out << "  " << name.substr(13) << "  " << text << '\n';
  }
}

Result predicted_result(const Plan& plan, const std::string& evaluator,
                        const model::RunRecorder& recorder) {
  Result result;
  result.kind = "predicted";
  result.evaluator = evaluator;
  result.plan = {.sha256 = planner::plan_sha256(plan),
                 .strategy = plan.strategy,
                 .model = plan.model.name,
                 .platform = plan.cluster.name()};
  result.environment["tandem"] = version();
  if (evaluator == "simgrid") result.environment.merge(sim::network_settings());
  for (std::size_t i = 0; i < plan.profiles.size(); ++i)
    result.environment["profile of " + plan.cluster.devices()[i].name] = plan.profiles[i].source;
  fill_result(recorder, result);
  return result;
}

std::optional<ServedRun> served_run(const Options& options, const Plan& plan) {
  const std::optional<std::string> path = options.text("schedule");
  if (!path) {
    const std::optional<std::string> folder = options.text("tokenizer");
    std::optional<Served> served =
        served_workload(options, plan.model, folder ? find_weights(*folder) : "",
                        "give prompt_tokens, or '--tokenizer' a model folder");
    if (!served) return std::nullopt;
    return ServedRun{.served = std::move(*served)};
  }
  options.refuse({"workload", "policy", "chunk", "tokenizer", "raw-prompt"},
                 "with '--schedule', which has the requests and their steps");
  const Result measured = model::parse_result_json(read_file(*path), *path);
  const std::string expected = planner::plan_sha256(plan);
  if (measured.plan.sha256 != expected) {
    throw Error(*path + ": of plan " + measured.plan.sha256.substr(0, 16) + ", expected " +
                expected.substr(0, 16) + "; give the result of a run of this plan");
  }
  if (measured.kind != "measured") {
    throw Error(*path + ": field 'kind' is \"" + measured.kind +
                "\", expected \"measured\"; give a result of `tandem run --workload`");
  }
  if (measured.schedule.empty()) {
    throw Error(*path +
                ": field 'schedule' is null, expected the steps of a run; give a result of "
                "`tandem run --workload`");
  }
  ServedRun run{.served = {.requests = planner::requests_of(measured)}};
  run.schedule = planner::replayed_steps(measured.schedule, run.served.requests, plan.model, *path);
  return run;
}

int simulate_served(const Plan& plan, const ServedRun& run, const Simulation& how,
                    std::ostream& out) {
  const model::RunRecorder recorder = predict(plan, run, how, how.repetitions.seed);
  Result result = predicted_result(plan, how.evaluator, recorder);
  planner::fill_requests(run.served.requests, recorder.served(), result);
  if (run.served.policy != nullptr) result.environment["policy"] = run.served.policy->name;
  result.environment["schedule"] = run.schedule.empty() ? "by the policy" : "of a measured run";
  if (run.served.chunk > 0) result.environment["chunk"] = std::to_string(run.served.chunk);
  if (how.repetitions.varies) repeat(plan, run, how, result);
  if (how.trace) {
    result.trace = trace_reference(*how.trace, how.show.file);
    write_file(*how.trace, to_perfetto_json(recorder.trace(), "predicted"));
  }
  deliver(how.show, to_json(result), out);
  if (how.show.json) {
    out << to_json(result);
  } else if (how.show.table()) {
    out << result.plan.model << " on " << result.plan.platform << ", strategy "
        << result.plan.strategy << ", "
        << (run.served.policy != nullptr ? to_text(run.served)
                                         : std::string("the steps of a measured run"))
        << ", " << result.evaluator << "\n\n";
    print_requests(result, out);
    out << '\n';
    print_devices(result, out);
    print_repetitions(result, out);
    if (how.evaluator == "simgrid") print_network(result, out);
  }
  return 0;
}

}  // namespace tandem::cli
