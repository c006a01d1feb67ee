// tandem-study experiment: tables and figures of papers, made again.

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>

#include "cli/files/figure.hpp"
#include "cli/files/files.hpp"
#include "cli/files/named_scenarios.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/shown.hpp"
#include "cli/views/progress_view.hpp"
#include "model/base/word_list.hpp"
#include "study/experiment/experiment.hpp"
#include "study/experiment/experiment_report.hpp"

namespace tandem::cli {
namespace {

const study::Experiment& find_experiment(const std::string& name) {
  std::vector<std::string_view> known;
  for (const study::Experiment& experiment : study::experiments()) {
    if (experiment.name == name) return experiment;
    known.push_back(experiment.name);
  }
  throw Usage("unknown experiment '" + name + "'" + model::did_you_mean(name, known) +
              "; see 'tandem-study experiment list'");
}

void print_list(std::ostream& out) {
  std::size_t width = 0;
  for (const study::Experiment& experiment : study::experiments())
    width = std::max(width, experiment.name.size());
  for (const study::Experiment& experiment : study::experiments())
    out << experiment.name << std::string(width + 2 - experiment.name.size(), ' ')
        << experiment.summary << '\n';
}

}  // namespace

int experiment_command(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "experiment",
       .summary =
           "Makes a table or figure of a paper again by prediction and prints it beside the\n"
           "paper's, with the error of each number; 'tandem-study experiment list' names them.\n"
           "What the paper leaves open is calibrated on a few numbers, which are marked.\n"
           "In DIR: NAME.csv, NAME.png, NAME.svg.",
       .positionals = {"NAME"},
       .flags = {{"out", "DIR", "folder to write, made if need be"},
                 {"json", "", "print the result as JSON"},
                 {"quiet", "", "print nothing"}}},
      arguments);
  refuse_json_with_quiet(options);
  const std::string& name = options.positional(0);
  if (name == "list") {
    options.refuse({"out", "json", "quiet"}, "with the list of experiments");
    options.settle();
    print_list(out);
    return 0;
  }
  const study::Experiment& experiment = find_experiment(name);
  const bool json = options.has("json");
  const bool quiet = options.has("quiet");
  const std::filesystem::path notes = resource_folder("scenarios") / "experiments" / "notes.csv";
  const auto given = options.text("out");
  FileRoles files;
  files.reads("the notes of all experiments", notes);
  if (given) files.writes_in("flag '--out'", *given, {name + ".csv", name + ".png", name + ".svg"});
  files.check();
  options.settle();
  std::optional<std::filesystem::path> folder;
  if (given) folder = make_folder(*given);

  ProgressLine progress(name, !quiet);
  study::ExperimentReport report = experiment.run(scenarios(), progress);
  add_notes(report, name, model::parse_csv(read_file(notes), notes.string()));

  if (json) {
    out << to_json(report, experiment);
  } else if (!quiet) {
    print_report(report, out);
  }
  if (folder) {
    const std::filesystem::path csv = *folder / (name + ".csv");
    write_file(csv, to_csv(report));
    out.flush();
    draw_figure(experiment.plot, csv, *folder / name);
  }
  return unexplained(report) == 0 ? 0 : 3;
}

}  // namespace tandem::cli
