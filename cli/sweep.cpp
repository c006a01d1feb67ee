// tandem sweep: predictions over a grid of scenarios.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <numeric>
#include <ostream>
#include <set>
#include <thread>
#include <utility>

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/models.hpp"
#include "cli/terminal/progress.hpp"
#include "cli/version.hpp"
#include "model/analytic.hpp"
#include "model/csv.hpp"
#include "model/digest.hpp"
#include "model/error.hpp"
#include "model/variation.hpp"
#include "planner/lowering.hpp"
#include "sim/replay.hpp"
#include "study/sweep/grid.hpp"
#include "study/sweep/workers.hpp"

namespace tandem::cli {
namespace {

constexpr std::chrono::seconds kSaveEvery{1};

struct Sweep {
  study::Setup base;
  study::Grid grid;
  bool simgrid = true;
  std::vector<std::string> settings{};  // by point: a digest of everything but the varied values
};

constexpr std::array<std::string_view, 11> kResults{
    "status",     "ttft_s",       "latency_s",      "latency_p90_s", "total_s", "peak_memory_bytes",
    "bytes_sent", "bytes_loaded", "stall_fraction", "devices",       "reason"};

std::vector<std::string> header(const study::Grid& grid) {
  std::vector<std::string> names{"settings"};
  for (const study::Axis& axis : grid.axes()) names.push_back(axis.field.column());
  names.insert(names.end(), kResults.begin(), kResults.end());
  return names;
}

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  std::replace(line.begin(), line.end(), '\r', ' ');
  return line;
}

std::vector<std::string> predicted(const planner::Plan& plan, bool simgrid) {
  planner::GenerationSteps steps(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  if (simgrid) {
    sim::replay_extended(plan.cluster, plan.cost_model(), steps, recorder);
  } else {
    model::check_analytic(plan.cluster);
    extend_analytic(plan.cluster, plan.cost_model(), steps, recorder);
  }
  const model::Metrics metrics = recorder.metrics();
  const std::vector<double> latencies = metrics.token_latencies_s();
  const double mean = latencies.empty() ? 0.0
                                        : std::accumulate(latencies.begin(), latencies.end(), 0.0) /
                                              static_cast<double>(latencies.size());
  double sent = 0.0;
  double loaded = 0.0;
  double peak = 0.0;
  for (const model::DeviceMetrics& device : recorder.devices()) {
    sent += device.bytes_sent;
    loaded += device.bytes_loaded;
  }
  for (const planner::DevicePlan& device : plan.devices)
    peak = std::max(peak, device.memory.total());
  constexpr double kTolerance = 1e-9;  // as in `tandem simulate`
  const auto steady = recorder.steady(kTolerance);
  return {"ok",
          model::csv_number(metrics.ttft_s),
          latencies.empty() ? "" : model::csv_number(mean),
          latencies.empty() ? "" : model::csv_number(model::quantile(latencies, 0.9)),
          model::csv_number(metrics.token_times_s.empty() ? metrics.ttft_s
                                                          : metrics.token_times_s.back()),
          model::csv_number(peak),
          model::csv_number(sent),
          model::csv_number(loaded),
          steady ? model::csv_number(steady->stall_fraction) : "",
          std::to_string(plan.cluster.size()),
          ""};
}

std::vector<std::string> failed(const std::string& status, const std::string& reason) {
  std::vector<std::string> fields(kResults.size());
  fields.front() = status;
  fields.back() = first_line(reason);
  return fields;
}

// The line of a point in the CSV.
std::string run_point(const Sweep& sweep, study::Library& library, std::size_t i) {
  std::vector<std::string> fields{sweep.settings[i]};
  for (const study::Value& value : sweep.grid.values(i)) fields.push_back(value.text);
  std::vector<std::string> result;
  try {
    const study::Setup setup = sweep.grid.setup(sweep.base, i);
    if (setup.allreduce && !planner::find_strategy(setup.strategy).splits)
      throw Error("plan.allreduce: strategy '" + setup.strategy + "' joins no partial sums");
    if (setup.partition && !planner::find_strategy(setup.strategy).splits &&
        !planner::find_strategy(setup.strategy).splits_layers)
      throw Error("plan.partition: strategy '" + setup.strategy + "' does not split the model");
    planner::Request request = library.request(setup);
    request.evaluate = sweep.simgrid ? planner::Evaluator(sim::replay)
                                     : planner::Evaluator(model::evaluate_analytic);
    const auto answer = make_plan(request);
    const auto* no = std::get_if<planner::Infeasible>(&answer);
    result = no != nullptr ? failed("infeasible", no->reason)
                           : predicted(std::get<planner::Plan>(answer), sweep.simgrid);
  } catch (const Error& error) {
    result = failed("error", error.what());
  }
  fields.insert(fields.end(), result.begin(), result.end());
  std::string line = model::csv_line(fields);
  line.pop_back();
  return line;
}

// Rows of the grid's points by number; empty: not done.
class Rows {
 public:
  Rows(std::filesystem::path path, const Sweep& sweep)
      : path_(std::move(path)), sweep_(&sweep), lines_(sweep.grid.size()) {
    std::error_code fault;
    if (std::filesystem::is_regular_file(path_, fault)) read();
  }

  void set(std::size_t i, std::string line) {
    lines_[i] = std::move(line);
    const auto now = std::chrono::steady_clock::now();
    if (now - saved_ < kSaveEvery) return;
    saved_ = now;
    save();
  }

  void save() const {
    std::string text = model::csv_line(header(sweep_->grid));
    for (const std::string& line : lines_) {
      if (!line.empty()) text += line + '\n';
    }
    write_file(path_, text);
  }

  [[nodiscard]] std::vector<std::size_t> missing() const {
    std::vector<std::size_t> todo;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (lines_[i].empty()) todo.push_back(i);
    }
    return todo;
  }

 private:
  static constexpr const char* kRemedy = "; give another --out, or remove the file";

  void read() {
    const model::Csv csv = model::parse_csv(read_file(path_), path_.string());
    if (csv.header != header(sweep_->grid))
      throw Error(path_.string() +
                  ": has other columns than this sweep, expected the file of an "
                  "earlier run of it" +
                  kRemedy);
    std::map<std::vector<std::string>, std::size_t> points;
    for (std::size_t i = 0; i < lines_.size(); ++i) points.emplace(key(i), i);
    const auto width = static_cast<std::ptrdiff_t>(sweep_->grid.axes().size());
    for (const std::vector<std::string>& row : csv.rows) {
      const auto found =
          points.find(std::vector<std::string>(row.begin() + 1, row.begin() + 1 + width));
      if (found == points.end()) continue;
      if (const std::string& expected = sweep_->settings[found->second]; row.front() != expected)
        throw Error(path_.string() + ": made with other settings (" + row.front() + ", expected " +
                    expected + ") or another version of tandem" + kRemedy);
      std::string line = model::csv_line(row);
      line.pop_back();
      lines_[found->second] = std::move(line);
    }
  }

  [[nodiscard]] std::vector<std::string> key(std::size_t i) const {
    std::vector<std::string> texts;
    for (const study::Value& value : sweep_->grid.values(i)) texts.push_back(value.text);
    return texts;
  }

  std::filesystem::path path_;
  const Sweep* sweep_;
  std::vector<std::string> lines_;
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
};

// Of all but the varied values, by point: files by their contents, so that rows of another
// scenario are not taken for this one's.
std::vector<std::string> settings_of(const Options& options, const Sweep& sweep,
                                     study::Library& library) {
  std::string common = std::string(version()) + (sweep.simgrid ? "\nsimgrid" : "\nanalytic");
  for (const std::string& setting : options.all("set")) common += "\nset " + setting;
  std::vector<std::string> settings;
  for (std::size_t i = 0; i < sweep.grid.size(); ++i) {
    std::string text = common;
    text += '\n';
    text += library.digest(sweep.grid.setup(sweep.base, i));
    settings.push_back(model::sha256_hex(text).substr(0, 12));
  }
  return settings;
}

std::string fields_help() {
  std::string text;
  for (const study::Field& field : study::fields())
    text += "\n  " + std::string(field.name) +
            std::string(26 - std::min<std::size_t>(25, field.name.size()), ' ') +
            std::string(field.help);
  return text;
}

// One field is set once: by a flag of its own, by --set or by --vary.
void check_fields(const Options& options, const study::Grid& grid) {
  std::map<std::string, std::string> by;  // column -> flag
  for (const char* const flag : {"platform", "model"}) {
    if (options.has(flag)) by[flag] = "flag '--" + std::string(flag) + "'";
  }
  const auto add = [&](const study::FieldUse& field, const std::string& flag) {
    const auto [place, is_new] = by.try_emplace(field.column(), flag);
    if (!is_new)
      throw Usage(place->second + " has no effect with " + flag + " of '" +
                  std::string(field.field->name) + "', the same field; leave one out");
  };
  for (const std::string& text : options.all("set"))
    add(study::parse_axis(text).field, "flag '--set'");
  for (const study::Axis& axis : grid.axes()) add(axis.field, "flag '--vary'");
}

study::Setup base_setup(const Options& options) {
  study::Setup base;
  base.platform = options.text_or("platform", "");
  base.model = options.text_or("model", "");
  for (const std::string& text : options.all("set")) {
    const study::Axis one = study::parse_axis(text);
    if (one.values.size() != 1)
      throw Error("flag '--set': '" + text + "', expected one value; use --vary for several");
    one.field.field->apply(base, one.field.selector, one.values.front());
  }
  return base;
}

study::Grid read_grid(const Options& options) {
  std::vector<study::Axis> axes;
  for (const std::string& text : options.all("vary")) axes.push_back(study::parse_axis(text));
  if (axes.empty()) throw Usage("flag '--vary' is required; see 'tandem help sweep'");
  return study::Grid(std::move(axes));
}

}  // namespace

int sweep_command(const Arguments& arguments, std::ostream& out) {
  static const std::string summary =
      "Predicts every combination of the values of fields, on all cores, into a tidy CSV. A file\n"
      "of an earlier run is gone on with. VALUES: a,b,c, lin(FIRST,LAST,COUNT),\n"
      "log(FIRST,LAST,COUNT). Fields, devices and links by name as device[laptop].memory:" +
      fields_help();
  Options options(
      {.command = "sweep",
       .summary = summary,
       .positionals = {},
       .flags = {{"vary", "FIELD=VALUES", "what to vary; may be repeated (required)", true},
                 {"set", "FIELD=VALUE", "what else differs from the defaults; may be repeated",
                  true},
                 {"platform", "P", "platform file, or a name in scenarios/platforms"},
                 {"model", "M", "model folder, config.json, or known name"},
                 {"evaluator", "E", "simgrid or analytic (nothing contends) [simgrid]"},
                 {"jobs", "N", "processes at once [the machine's cores]"},
                 {"out", "FILE", "CSV to write or go on with (required)"},
                 {"quiet", "", "print nothing, no progress"}}},
      arguments);
  const std::filesystem::path path = options.required("out");
  const bool simgrid =
      options.choice_or("evaluator", "simgrid", {"simgrid", "analytic"}) == "simgrid";
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const std::int64_t jobs = options.integer_or("jobs", cores, 1, 1024);
  Sweep sweep{.base = base_setup(options), .grid = read_grid(options), .simgrid = simgrid};
  check_fields(options, sweep.grid);
  for (const char* needed : {"platform", "model"}) {
    const bool given = needed[0] == 'p' ? !sweep.grid.setup(sweep.base, 0).platform.empty()
                                        : !sweep.grid.setup(sweep.base, 0).model.empty();
    if (!given)
      throw Usage("flag '--" + std::string(needed) + "' is required, or vary '" + needed + "'");
  }
  const bool quiet = options.has("quiet");
  FileRoles files;
  std::set<std::pair<std::string, std::string>> named;
  for (std::size_t i = 0; i < sweep.grid.size(); ++i) {
    const study::Setup setup = sweep.grid.setup(sweep.base, i);
    if (!named.emplace(setup.platform, setup.model).second) continue;
    files.reads("a platform", find_platform(setup.platform));
    files.reads("a model", find_config(setup.model));
  }
  files.writes("flag '--out'", path);
  files.check();
  options.settle();
  // Every point's scenario is made before the first is simulated: a wrong value costs no work.
  study::Library library(scenarios());
  for (std::size_t i = 0; i < sweep.grid.size(); ++i)
    static_cast<void>(library.request(sweep.grid.setup(sweep.base, i)));
  sweep.settings = settings_of(options, sweep, library);

  Rows rows(path, sweep);
  const std::vector<std::size_t> todo = rows.missing();
  {
    ProgressLine progress("sweep", !quiet);
    progress.expect(todo.size());
    try {
      study::run_in_processes(
          todo, static_cast<std::size_t>(jobs),
          [&](std::size_t i) { return run_point(sweep, library, i); },
          [&](std::size_t i, const std::string& line) {
            rows.set(i, line);
            progress.advance(1);
          });
    } catch (const Error&) {
      rows.save();
      throw;
    }
  }
  rows.save();
  if (!quiet)
    out << path.string() << ": " << sweep.grid.size() << " points, " << todo.size()
        << " of them new\n";
  return 0;
}

}  // namespace tandem::cli
