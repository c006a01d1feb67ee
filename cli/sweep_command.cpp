// tandem sweep: predictions over a grid of scenarios.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <ostream>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "advice/sweep/sweep.hpp"
#include "advice/sweep/workers.hpp"
#include "cli/files/files.hpp"
#include "cli/files/named_scenarios.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/platform_flags.hpp"
#include "cli/version.hpp"
#include "cli/views/progress_view.hpp"
#include "model/base/error.hpp"

namespace tandem::cli {
namespace {

constexpr std::chrono::seconds kSaveEvery{1};

// Flags that set a field for all points.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kFieldFlags{
    {{"platform", "platform"}, {"model", "model"}, {"chunk", "plan.chunk"}}};

// The file of a sweep's table: what an earlier run has left, and what has been predicted since.
class TableFile {
 public:
  TableFile(std::filesystem::path path, const study::Sweep& sweep)
      : path_(std::move(path)), table_(sweep) {
    std::error_code fault;
    if (std::filesystem::is_regular_file(path_, fault))
      table_.take(read_file(path_), path_.string());
  }

  void set(std::size_t i, std::string line) {
    table_.set(i, std::move(line));
    const auto now = std::chrono::steady_clock::now();
    if (now - saved_ < kSaveEvery) return;
    saved_ = now;
    save();
  }
  void save() const { write_file(path_, table_.to_csv()); }
  [[nodiscard]] std::vector<std::size_t> missing() const { return table_.missing(); }

 private:
  std::filesystem::path path_;
  study::SweepTable table_;
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
};

// What decides beside platform, model and the varied values.
std::string common_settings(const Options& options, study::EvaluatorKind evaluator) {
  std::string common = std::string(version()) + '\n' + std::string(to_string(evaluator));
  for (const char* const flag : {"set", "default", "hosts", "chunk"}) {
    for (const std::string& value : options.all(flag))
      common += "\n" + std::string(flag) + " " + value;
  }
  return common;
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
  for (const auto& [flag, field] : kFieldFlags) {
    if (options.has(flag)) by[std::string(field)] = "flag '--" + std::string(flag) + "'";
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
  for (const auto& [flag, field] : kFieldFlags) {
    if (const auto text = options.text(flag))
      study::find_field(std::string(field)).field->apply(base, "", {*text});
  }
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
                 kHostsFlag,
                 kDefaultFlag,
                 {"model", "M", "model folder, GGUF file, config.json, or known name"},
                 {"chunk", "N",
                  "read prompts in chunks of N tokens, whole, or auto: as predicted best [whole]"},
                 {"evaluator", "E", "simgrid or analytic (nothing contends) [simgrid]"},
                 {"jobs", "N", "processes at once [the machine's cores]"},
                 {"out", "FILE", "CSV to write or go on with (required)"},
                 {"quiet", "", "print nothing, no progress"}}},
      arguments);
  const std::filesystem::path path = options.required("out");
  const study::EvaluatorKind evaluator =
      options.choice_or("evaluator", "simgrid", {"simgrid", "analytic"}) == "simgrid"
          ? study::EvaluatorKind::simgrid
          : study::EvaluatorKind::analytic;
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const std::int64_t jobs = options.integer_or("jobs", cores, 1, 1024);
  study::Sweep sweep{
      .base = base_setup(options), .grid = read_grid(options), .evaluator = evaluator};
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
  const sim::PlatformOptions reading = platform_options(options);
  options.settle();
  // Every point's scenario is made before the first is simulated: a wrong value costs no work.
  study::Library library(scenarios(reading, [quiet](const sim::Platform& platform) {
    for (const std::string& remark : platform_remarks(platform, platform.cluster)) {
      if (!quiet) std::cerr << "tandem sweep: " << remark << '\n';
    }
  }));
  for (std::size_t i = 0; i < sweep.grid.size(); ++i)
    static_cast<void>(library.request(sweep.grid.setup(sweep.base, i)));
  sweep.settings = study::settings_of(sweep, library, common_settings(options, evaluator));

  TableFile table(path, sweep);
  const std::vector<std::size_t> todo = table.missing();
  {
    ProgressLine progress("sweep", !quiet);
    progress.expect(todo.size());
    try {
      study::run_in_processes(
          todo, static_cast<std::size_t>(jobs),
          [&](std::size_t i) { return study::predicted_line(sweep, library, i); },
          [&](std::size_t i, const std::string& line) {
            table.set(i, line);
            progress.advance(1);
          });
    } catch (const Error&) {
      table.save();
      throw;
    }
  }
  table.save();
  if (!quiet)
    out << path.string() << ": " << sweep.grid.size() << " points, " << todo.size()
        << " of them new\n";
  return 0;
}

}  // namespace tandem::cli
