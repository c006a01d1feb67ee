// tandem experiment: tables and figures of papers, made again.

#include "cli/experiment/experiment.hpp"

#include <filesystem>
#include <optional>
#include <ostream>

#include "cli/commands.hpp"
#include "cli/experiment/report.hpp"
#include "cli/figure.hpp"
#include "cli/files.hpp"
#include "cli/options.hpp"
#include "cli/table.hpp"

namespace tandem::cli {
namespace {

const Experiment& find_experiment(const std::string& name) {
  std::vector<std::string_view> known;
  for (const Experiment& experiment : experiments()) {
    if (experiment.name == name) return experiment;
    known.push_back(experiment.name);
  }
  const std::string_view guess = nearest(name, known);
  throw Usage("unknown experiment '" + name + "'" +
              (guess.empty() ? "" : ", did you mean '" + std::string(guess) + "'?") +
              "; see 'tandem experiment list'");
}

void print_list(std::ostream& out) {
  Table table({"experiment", ""});
  for (const Experiment& experiment : experiments())
    table.add({std::string(experiment.name), std::string(experiment.summary)});
  table.print(out);
}

}  // namespace

int experiment_command(const Arguments& arguments, std::ostream& out) {
  const Options options(
      {.command = "experiment",
       .summary =
           "Makes a table or figure of a paper again by prediction and prints it beside the\n"
           "paper's, with the error of each number; 'tandem experiment list' names them. What\n"
           "the paper leaves open is calibrated on a few numbers, which are marked.\n"
           "In DIR: NAME.csv, NAME.png, NAME.svg.",
       .positionals = {"NAME"},
       .flags = {{"out", "DIR", "folder to write, made if need be"},
                 {"json", "", "print the result as JSON"},
                 {"quiet", "", "print nothing"}}},
      arguments);
  if (options.has("json") && options.has("quiet"))
    throw Usage("flags '--json' and '--quiet' contradict each other; give one");
  const std::string& name = options.positional(0);
  if (name == "list") {
    for (const char* const flag : {"out", "json", "quiet"}) {
      if (options.has(flag))
        throw Usage("flag '--" + std::string(flag) +
                    "' is for an experiment, not for their list; leave it out");
    }
    print_list(out);
    return 0;
  }
  const Experiment& experiment = find_experiment(name);
  std::optional<std::filesystem::path> folder;
  if (const auto given = options.text("out")) folder = make_folder(*given);

  Progress progress(name, !options.has("quiet"));
  ExperimentReport report = experiment.run(progress);
  const std::filesystem::path notes = resource_folder("scenarios") / "experiments" / "notes.csv";
  add_notes(report, name, parse_csv(read_file(notes), notes.string()));

  if (options.has("json")) {
    out << to_json(report, experiment);
  } else if (!options.has("quiet")) {
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
