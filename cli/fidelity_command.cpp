// tandem fidelity: how far predictions are off, over a matrix of configurations.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "advice/fidelity/deviation_summary.hpp"
#include "advice/fidelity/matrix.hpp"
#include "advice/fidelity/recording.hpp"
#include "advice/fidelity/report_page.hpp"
#include "advice/fidelity/report_text.hpp"
#include "cli/fidelity/recordings_folder.hpp"
#include "cli/fidelity/replay.hpp"
#include "cli/fidelity/run_ways.hpp"
#include "cli/fidelity/sitting.hpp"
#include "cli/fidelity/subcommands.hpp"
#include "cli/files/files.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"
#include "cli/version.hpp"
#include "cli/views/interruption.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "exec/testbed/memory_groups.hpp"
#include "exec/testbed/testbed.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/units.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Build and machine.
std::string recorder_here() {
  return "tandem " + std::string(version()) + ", " + exec::processor_here() + ", " +
         std::to_string(std::thread::hardware_concurrency()) + " cores";
}

struct MatrixJob {
  study::Configuration configuration;
  const RunWay* way = nullptr;
};

std::vector<std::string_view> way_names() {
  std::vector<std::string_view> names{"auto"};
  for (const RunWay& way : run_ways()) names.push_back(way.name);
  return names;
}

std::string way_help() {
  std::string text = "how to run: auto, the first of these that applies;";
  for (const RunWay& way : run_ways())
    text.append(" ").append(way.name).append(" (").append(way.help).append(")");
  return text + " [auto]";
}

struct Matrix {
  study::Half half = study::Half::shown;
  std::size_t size = 0;                // configurations of the half
  std::vector<MatrixJob> wanted{};     // those that are asked for, in their order
  std::vector<std::string> skipped{};  // "NAME: why it cannot be run in the way that is asked for"
};

Matrix asked_matrix(const Options& options, study::Half half) {
  const std::string only = options.text_or("only", "");
  const std::string asked = options.choice_or("way", "auto", way_names());
  std::vector<study::Configuration> configurations = study::configurations(half);
  Matrix matrix{.half = half, .size = configurations.size()};
  for (study::Configuration& one : configurations) {
    if (one.name().find(only) == std::string::npos) continue;
    std::string obstacle;
    const auto way = std::ranges::find_if(run_ways(), [&](const RunWay& row) {
      if (asked != "auto" && asked != row.name) return false;
      obstacle = row.obstacle(one);
      return obstacle.empty();
    });
    if (way == run_ways().end()) {
      matrix.skipped.push_back(
          std::string(one.name()).append(": ").append(asked).append(": ").append(obstacle));
    } else {
      matrix.wanted.push_back({std::move(one), &*way});
    }
  }
  if (matrix.wanted.empty())
    throw Error(
        "flag '--only': '" + only + "' with way '" + asked + "' names no configuration" +
        (matrix.skipped.empty() ? "" : " that can be run (" + matrix.skipped.front() + ")") +
        ", expected a part of a name; see 'tandem fidelity --list'");
  return matrix;
}

std::string title_of(study::Half half) {
  return half == study::Half::shown ? "Fidelity of tandem's predictions"
                                    : "Fidelity of tandem's predictions: the half set aside";
}

std::string joined(const std::set<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : "; ") + value;
  return text;
}

// What the page is of. Several values where recordings differ.
std::vector<std::pair<std::string, std::string>> facts_of(
    const std::vector<study::Recording>& recordings, std::size_t configurations) {
  std::set<std::string> distinct;
  for (const study::Recording& one : recordings) distinct.insert(one.configuration);
  std::vector<std::pair<std::string, std::string>> rows{
      {"configurations", std::to_string(distinct.size()) + " recorded of " +
                             std::to_string(configurations) + " in this half of the matrix"}};
  for (const auto& [key, title] :
       {std::pair("recorder", "recorded by"), std::pair("machine", "machine"),
        std::pair("kernels", "kernels"), std::pair("instruction_sets", "instruction sets"),
        std::pair("integer_kernels", "integer kernels"), std::pair("kind", "kind of results"),
        std::pair("pace", "pace"), std::pair("tcp", "TCP of the testbed"),
        std::pair("testbed_memory", "memory of the testbed's devices")}) {
    std::set<std::string> values;
    for (const study::Recording& one : recordings) {
      if (const auto found = one.environment.find(key); found != one.environment.end())
        values.insert(found->second);
    }
    if (!values.empty()) rows.emplace_back(title, joined(values));
  }
  std::set<std::string> dates;
  std::set<std::size_t> runs;
  double most = 0.0;
  for (const study::Recording& one : recordings) {
    if (const auto found = one.environment.find("date"); found != one.environment.end())
      dates.insert(found->second);
    most = std::max(most, one.reference.drift());
    for (const study::Quantity& quantity : one.quantities)
      if (quantity.scope == "run") runs.insert(quantity.measured.size());
  }
  if (!dates.empty()) rows.emplace_back("date", *dates.begin() + " to " + *dates.rbegin());
  if (!runs.empty())
    rows.emplace_back("runs a configuration",
                      std::to_string(*runs.begin()) + (runs.size() > 1 ? " or more" : ""));
  rows.emplace_back("largest drift of a sitting", study::size_text(100.0 * most));
  return rows;
}

void write_report(const fs::path& folder, const Matrix& matrix,
                  const std::vector<study::Recording>& recordings,
                  const std::vector<std::string>& missing) {
  write_file(folder / "fidelity.csv", study::fidelity_csv(recordings));
  write_file(folder / "report.html",
             study::fidelity_page(recordings, {.title = title_of(matrix.half),
                                               .rows = facts_of(recordings, matrix.size),
                                               .missing = missing}));
}

std::string progress_text(const study::Recording& recording) {
  std::string text = recording.configuration + ":";
  for (const study::JudgedMetric& metric : study::judged_metrics()) {
    const study::Quantity* const one = study::judged(recording, metric.name);
    text.append(" ")
        .append(metric.title)
        .append(" ")
        .append(one != nullptr ? study::percent_text(*one->percent()) : "-");
    text += ',';
  }
  return text + " drift " + study::size_text(100.0 * recording.reference.drift());
}

int list(const Matrix& matrix, std::ostream& out) {
  for (const MatrixJob& job : matrix.wanted)
    out << job.configuration.name() << "  " << job.way->name << '\n';
  for (const std::string& one : matrix.skipped) out << "skipped: " << one << '\n';
  return 0;
}

// One pass over the configurations without a recording.
class Pass {
 public:
  Pass(SittingOptions sitting, const RecordingsFolder& store, double seconds, bool quiet)
      : sitting_(std::move(sitting)), store_(&store), seconds_(seconds), quiet_(quiet) {}

  // Records `jobs` until the time is up or the pass is interrupted; a configuration that fails is
  // left out. Adds to `recordings`.
  void record_all(const std::vector<MatrixJob>& jobs, std::vector<study::Recording>& recordings) {
    std::size_t done = 0;
    for (const MatrixJob& job : jobs) {
      if (elapsed_s() >= seconds_) return;
      try {
        recordings.push_back(record(job.configuration, *job.way, sitting_, commands_));
        store_->write(recordings.back());
        say(++done, jobs.size(), progress_text(recordings.back()));
      } catch (const Interrupted&) {
        return;
      } catch (const Error& fault) {
        failed_.push_back(job.configuration.name() + ": " + fault.what());
        say(++done, jobs.size(), failed_.back());
      }
    }
  }
  [[nodiscard]] Subcommands& commands() { return commands_; }
  [[nodiscard]] const std::string& tcp() const { return sitting_.tcp; }
  [[nodiscard]] const std::vector<std::string>& failed() const { return failed_; }

 private:
  [[nodiscard]] double elapsed_s() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  void say(std::size_t done, std::size_t all, const std::string& what) const {
    if (quiet_) return;
    const double left_s = elapsed_s() / static_cast<double>(done) * static_cast<double>(all - done);
    std::cerr << "tandem fidelity: " << done << " of " << all << ", "
              << to_text(model::Seconds{left_s}) << " left, " << what << '\n';
  }

  SittingOptions sitting_;
  const RecordingsFolder* store_;
  double seconds_;
  bool quiet_;
  Subcommands commands_;
  std::vector<std::string> failed_;
  Clock::time_point start_ = Clock::now();
};

// Throws Error for a recording of a job that was run in another way than is asked for.
void check_ways(const RecordingsFolder& store, const std::vector<study::Recording>& recordings,
                const std::vector<MatrixJob>& wanted, const std::string& tcp) {
  for (const MatrixJob& job : wanted) {
    const std::string way = recorded_way(*job.way, tcp);
    const std::string file =
        study::Recording::file_name(job.configuration.name(), way, job.way->over_tcp);
    const auto found = std::ranges::find(
        recordings, file, [](const study::Recording& one) { return one.file_name(); });
    if (found != recordings.end() && found->way != way)
      throw Error(store.path_of(*found).string() + ": run in way '" + found->way + "', expected '" +
                  way + "'; give another folder with '--out', or remove it");
  }
}

// What is left undone: an error, as the report is not of the whole matrix.
void check_complete(const Pass& pass, const fs::path& folder, bool interrupted) {
  if (interrupted)
    throw Error(folder.string() +
                ": interrupted; what was recorded is kept, and the same command goes on");
  if (!pass.failed().empty())
    throw Error(std::to_string(pass.failed().size()) +
                " configurations failed; the first: " + pass.failed().front());
}

std::vector<MatrixJob> without_recording(const std::vector<MatrixJob>& wanted,
                                         const std::vector<study::Recording>& recordings,
                                         const std::string& tcp) {
  std::set<std::string> recorded;
  for (const study::Recording& one : recordings) recorded.insert(one.file_name());
  std::vector<MatrixJob> left = wanted;
  std::erase_if(left, [&](const MatrixJob& job) {
    return recorded.contains(study::Recording::file_name(
        job.configuration.name(), recorded_way(*job.way, tcp), job.way->over_tcp));
  });
  return left;
}

int run_matrix(const Matrix& matrix, const fs::path& folder, bool quiet, Pass& pass,
               const RecordingsFolder& store, std::ostream& out) {
  std::vector<study::Recording> recordings = store.read(matrix.half);
  check_recorder(store, recordings, recorder_here());
  check_ways(store, recordings, matrix.wanted, pass.tcp());
  const auto wants_tcp = [](const MatrixJob& job) { return job.way->over_tcp; };
  const std::vector<MatrixJob> missing = without_recording(matrix.wanted, recordings, pass.tcp());
  const bool uses_testbed = std::ranges::any_of(missing, wants_tcp);
  if (uses_testbed) exec::check_testbed_rights();
  pass.record_all(missing, recordings);
  // A signal after this is for the report, which takes a moment.
  const bool interrupted = pass.commands().interrupted();
  // Of a testbed that was killed with its command.
  if (interrupted && uses_testbed) exec::remove_memory_groups();
  const std::size_t left = without_recording(matrix.wanted, recordings, pass.tcp()).size();
  std::ranges::sort(recordings, {}, [](const study::Recording& one) { return one.file_name(); });
  std::vector<std::string> unrecorded = pass.failed();
  unrecorded.insert(unrecorded.end(), matrix.skipped.begin(), matrix.skipped.end());
  write_report(folder, matrix, recordings, unrecorded);
  if (!quiet) {
    print_fidelity(recordings, out);
    if (!matrix.skipped.empty())
      out << matrix.skipped.size() << " configurations were skipped, see --list or the report\n";
    if (left > 0) out << left << " configurations are left; the same command goes on with them\n";
    out << "report: " << (folder / "report.html").string() << '\n';
  }
  check_complete(pass, folder, interrupted);
  return 0;
}

Options parsed(const Arguments& arguments) {
  static const std::string ways = way_help();
  return Options(
      {.command = "fidelity",
       .summary =
           "Plans, predicts and runs a matrix of small configurations, and reports how far\n"
           "predictions are off: DIR/report.html, DIR/fidelity.csv, DIR/recordings. A folder of "
           "an\n"
           "earlier run is gone on with. Half of the matrix is set aside: the cost model must not\n"
           "be tuned on it. A configuration takes some 30 s; nothing else should run meanwhile.",
       .positionals = {},
       .flags =
           {{"out", "DIR", "folder of the report and of all that is measured [fidelity]"},
            {"set-aside", "", "the half that is set aside, instead of the other"},
            {"only", "TEXT", "configurations whose name contains it [all]"},
            {"way", "WAY", ways},
            {"tcp", "HOW",
             "with --way testbed: system, warm or pinned, as in `testbed run` [system]"},
            {"seconds", "S", "begin no configuration after so many seconds [no limit]"},
            {"runs", "N", "runs of a configuration [5]"},
            {"profile-seconds", "S", "about how long each of its two profiles may take [10]"},
            {"list", "", "print the configurations and how they are run, and do nothing"},
            {"replay", "DIR",
             "predict the recordings in DIR again, run nothing; exit code 3 if a prediction is not "
             "the recorded one"},
            {"update", "", "with --replay: write the new predictions into the recordings"},
            {"quiet", "", "print no summary and no progress"}}},
      arguments);
}

}  // namespace

int fidelity_command(const Arguments& arguments, std::ostream& out) {
  Options options = parsed(arguments);
  const study::Half half = options.has("set-aside") ? study::Half::set_aside : study::Half::shown;
  const SittingOptions sitting{
      .folder = options.text_or("out", "fidelity"),
      .recorder = recorder_here(),
      .runs = static_cast<int>(options.integer_or("runs", 5, 1, 1000)),
      .profile_seconds = options.number_or("profile-seconds", 10.0, 0.1, 3600.0),
      .tcp = options.choice_or("tcp", "system", {"system", "warm", "pinned"})};
  constexpr double kNoLimit = 1e9;
  const double seconds = options.number_or("seconds", kNoLimit, 0.0, kNoLimit);
  const RecordingsFolder store(sitting.folder / "recordings");
  if (const auto replayed = options.text("replay")) {
    options.refuse(
        {"out", "only", "way", "tcp", "seconds", "runs", "profile-seconds", "list", "quiet"},
        "with '--replay', which runs nothing");
    const bool update = options.has("update");
    options.settle();
    Subcommands commands;
    const Interruption interruption([&](const std::string&) { commands.interrupt(); });
    try {
      return replay_recordings(*replayed, half, update, commands, out);
    } catch (const Interrupted&) {
      throw Error(*replayed + ": interrupted; no recording is changed");
    }
  }
  options.refuse({"update"}, "without '--replay'");
  const Matrix matrix = asked_matrix(options, half);
  if (!matrix.wanted.front().way->over_tcp)
    options.refuse({"tcp"}, "without '--way testbed', which has TCP on its links");
  if (options.has("list")) {
    options.refuse({"out", "seconds", "runs", "profile-seconds", "quiet"},
                   "with '--list', which runs nothing");
    options.settle();
    return list(matrix, out);
  }
  const bool quiet = options.has("quiet");
  options.settle();
  static_cast<void>(make_folder(sitting.folder / "recordings"));
  for (const char* const name : {"report.html", "fidelity.csv"})
    check_writable(sitting.folder / name);
  Pass pass(sitting, store, seconds, quiet);
  const Interruption interruption([&](const std::string&) { pass.commands().interrupt(); });
  return run_matrix(matrix, sitting.folder, quiet, pass, store, out);
}

}  // namespace tandem::cli
