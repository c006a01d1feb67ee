#include "advice/sweep/sweep.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <variant>

#include "advice/ask.hpp"
#include "advice/prompt_chunks.hpp"
#include "model/base/csv.hpp"
#include "model/base/digest.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/statistics.hpp"
#include "model/cluster/variation.hpp"
#include "model/predict/analytic.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/replay/replay.hpp"

namespace tandem::study {
namespace {

constexpr std::array<std::string_view, 11> kResults{
    "status",     "ttft_s",       "latency_s",      "latency_p90_s", "total_s", "peak_memory_bytes",
    "bytes_sent", "bytes_loaded", "stall_fraction", "devices",       "reason"};

std::vector<std::string> header(const Grid& grid) {
  std::vector<std::string> names{"settings"};
  for (const Axis& axis : grid.axes()) names.push_back(axis.field.column());
  names.insert(names.end(), kResults.begin(), kResults.end());
  return names;
}

std::string first_line_of(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  std::replace(line.begin(), line.end(), '\r', ' ');
  return line;
}

// What the table has of a prediction: metrics, devices and the steady verdict.
model::Result whole_prompt(const planner::Plan& plan, EvaluatorKind evaluator) {
  planner::GenerationSteps steps(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  if (evaluator == EvaluatorKind::simgrid) {
    sim::replay_extrapolated(plan.cluster, plan.cost_model(), steps, recorder);
  } else {
    extrapolate_analytic(plan.cluster, plan.cost_model(), steps, recorder);
  }
  constexpr double kTolerance = 1e-9;  // as in `tandem simulate`
  return {.metrics = recorder.metrics(),
          .steady = recorder.steady(kTolerance),
          .devices = recorder.devices()};
}

// A plan whose prompt is read in chunks of `chunk` rows; 0: whole.
struct ReadPlan {
  planner::Plan plan;
  std::int64_t chunk = 0;
};

std::variant<ReadPlan, planner::Infeasible> plan_as_read(const planner::Request& request,
                                                         const PromptReading& reading) {
  const bool in_chunks = reading.rows > 0 && reading.rows < request.workload.prompt_tokens;
  if (in_chunks && reads_whole(request))
    throw Error("plan.chunk: " + std::to_string(reading.rows) +
                ", but the prompt of this model, or with this strategy or window, is read whole");
  if (reads_whole(request) || (!reading.best && !in_chunks)) {
    auto answer = make_plan(request);
    if (auto* const no = std::get_if<planner::Infeasible>(&answer)) return std::move(*no);
    return ReadPlan{.plan = std::get<planner::Plan>(std::move(answer))};
  }
  auto answer = plan_prompt(request, reading);
  if (auto* const no = std::get_if<planner::Infeasible>(&answer)) return std::move(*no);
  auto& found = std::get<PromptPlan>(answer);
  return ReadPlan{.plan = std::move(found.plan), .chunk = found.chunk};
}

std::vector<std::string> predicted(const ReadPlan& read, EvaluatorKind evaluator) {
  const planner::Plan& plan = read.plan;
  if (evaluator == EvaluatorKind::analytic) model::check_analytic(plan.cluster);
  const model::Result result = read.chunk == 0
                                   ? whole_prompt(plan, evaluator)
                                   : predict_served(plan, one_in_chunks(plan.workload, read.chunk),
                                                    {.evaluator = evaluator, .intervals = false})
                                         .result;
  const model::Metrics& metrics = result.metrics;
  const std::vector<double> latencies = metrics.token_latencies_s();
  double sent = 0.0;
  double loaded = 0.0;
  double peak = 0.0;
  for (const model::DeviceMetrics& device : result.devices) {
    sent += device.bytes_sent;
    loaded += device.bytes_loaded;
  }
  for (const planner::DevicePlan& device : plan.devices)
    peak = std::max(peak, device.memory.total());
  const auto& steady = result.steady;
  return {"ok",
          model::shortest_text(metrics.ttft_s),
          latencies.empty() ? "" : model::shortest_text(model::mean(latencies)),
          latencies.empty() ? "" : model::shortest_text(model::quantile(latencies, 0.9)),
          model::shortest_text(metrics.token_times_s.empty() ? metrics.ttft_s
                                                             : metrics.token_times_s.back()),
          model::shortest_text(peak),
          model::shortest_text(sent),
          model::shortest_text(loaded),
          steady ? model::shortest_text(steady->stall_fraction) : "",
          std::to_string(plan.cluster.size()),
          ""};
}

std::vector<std::string> failed(const std::string& status, const std::string& reason) {
  std::vector<std::string> fields(kResults.size());
  fields.front() = status;
  fields.back() = first_line_of(reason);
  return fields;
}

// Returns the key of a point: the texts of its values.
std::vector<std::string> key(const Sweep& sweep, std::size_t i) {
  std::vector<std::string> texts;
  for (const Value& value : sweep.grid.values(i)) texts.push_back(value.text);
  return texts;
}

}  // namespace

std::string predicted_line(const Sweep& sweep, Library& library, std::size_t i) {
  std::vector<std::string> fields{sweep.settings[i]};
  for (const Value& value : sweep.grid.values(i)) fields.push_back(value.text);
  std::vector<std::string> result;
  try {
    const Setup setup = sweep.grid.setup(sweep.base, i);
    if (setup.allreduce && !planner::find_strategy(setup.strategy).sharding.has_collective())
      throw Error("plan.allreduce: strategy '" + setup.strategy + "' joins no partial sums");
    if (setup.partition && !planner::find_strategy(setup.strategy).sharding.splits_weights())
      throw Error("plan.partition: strategy '" + setup.strategy + "' does not split the model");
    planner::Request request = library.request(setup);
    request.evaluate = sweep.evaluator == EvaluatorKind::simgrid
                           ? planner::Evaluator(sim::evaluate_fair)
                           : planner::Evaluator(model::evaluate_analytic);
    const auto answer = plan_as_read(request, setup.prompt);
    const auto* const no = std::get_if<planner::Infeasible>(&answer);
    result = no != nullptr ? failed("infeasible", no->reason)
                           : predicted(std::get<ReadPlan>(answer), sweep.evaluator);
  } catch (const Error& error) {
    result = failed("error", error.what());
  }
  fields.insert(fields.end(), result.begin(), result.end());
  std::string line = model::csv_line(fields);
  line.pop_back();
  return line;
}

std::vector<std::string> settings_of(const Sweep& sweep, Library& library,
                                     const std::string& common) {
  std::vector<std::string> settings;
  for (std::size_t i = 0; i < sweep.grid.size(); ++i) {
    std::string text = common;
    text += '\n';
    text += library.digest(sweep.grid.setup(sweep.base, i));
    settings.push_back(model::sha256_hex(text).substr(0, 12));
  }
  return settings;
}

SweepTable::SweepTable(const Sweep& sweep) : sweep_(&sweep), lines_(sweep.grid.size()) {}

void SweepTable::take(std::string_view csv, const std::string& source) {
  constexpr const char* kRemedy = "; give another --out, or remove the file";
  const model::Csv table = model::parse_csv(csv, source);
  if (table.header != header(sweep_->grid))
    throw Error(source +
                ": has other columns than this sweep, expected the file of an "
                "earlier run of it" +
                kRemedy);
  std::map<std::vector<std::string>, std::size_t> points;
  for (std::size_t i = 0; i < lines_.size(); ++i) points.emplace(key(*sweep_, i), i);
  const auto width = static_cast<std::ptrdiff_t>(sweep_->grid.axes().size());
  for (const std::vector<std::string>& row : table.rows) {
    const auto found =
        points.find(std::vector<std::string>(row.begin() + 1, row.begin() + 1 + width));
    if (found == points.end()) continue;
    if (const std::string& expected = sweep_->settings[found->second]; row.front() != expected) {
      std::string what = source;
      what.append(": made with other settings (").append(row.front());
      what.append(", expected ").append(expected);
      what.append(") or another version of tandem").append(kRemedy);
      throw Error(what);
    }
    std::string line = model::csv_line(row);
    line.pop_back();
    lines_[found->second] = std::move(line);
  }
}

std::vector<std::size_t> SweepTable::missing() const {
  std::vector<std::size_t> points;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (lines_[i].empty()) points.push_back(i);
  }
  return points;
}

std::string SweepTable::to_csv() const {
  std::string text = model::csv_line(header(sweep_->grid));
  for (const std::string& line : lines_) {
    if (!line.empty()) text += line + '\n';
  }
  return text;
}

}  // namespace tandem::study
