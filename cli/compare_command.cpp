// tandem compare: holds predictions, replays and measurements against each other, of one plan or
// of several.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <system_error>
#include <vector>

#include "cli/files/figure.hpp"
#include "cli/files/files.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/shown.hpp"
#include "cli/views/comparison_view.hpp"
#include "model/base/error.hpp"
#include "model/report/comparability.hpp"
#include "model/report/comparison.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using model::ComparedResult;
using model::ResultOrigin;

std::vector<ComparedResult> read_results(const std::vector<std::string>& paths) {
  std::vector<ComparedResult> results;
  std::vector<ResultOrigin> origins;
  for (const std::string& path : paths) {
    results.push_back({.result = model::parse_result_json(read_file(path), path)});
    origins.push_back(results.back().result.origin);
  }
  const std::vector<std::string> labels = labels_of(paths, origins);
  for (std::size_t i = 0; i < results.size(); ++i) results[i].label = labels[i];
  return results;
}

bool is_same_file(const std::string& one, const std::string& other) {
  std::error_code ignored;
  return one == other || fs::equivalent(one, other, ignored);
}

void check_once(const std::vector<std::string>& paths) {
  for (std::size_t i = 1; i < paths.size(); ++i) {
    for (std::size_t before = 0; before < i; ++before) {
      if (is_same_file(paths[before], paths[i]))
        throw Usage("argument '" + paths[i] + "': the same file as argument '" + paths[before] +
                    "', expected different results; leave one out");
    }
  }
}

std::size_t reference_of(const Options& options, const std::vector<std::string>& paths,
                         const std::vector<ComparedResult>& results) {
  const std::optional<std::string> given = options.text("reference");
  if (!given) return model::default_reference(results);
  const auto found = std::ranges::find_if(
      paths, [&](const std::string& path) { return is_same_file(path, *given); });
  if (found == paths.end())
    throw Error("flag '--reference': '" + *given +
                "' is not among the results, expected one of them; add it to the arguments");
  return static_cast<std::size_t>(found - paths.begin());
}

std::vector<std::string> remarks_on(const std::vector<ComparedResult>& results,
                                    std::size_t reference) {
  std::vector<std::string> remarks = unlike_plans(results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i == reference) continue;
    const ComparedResult& one = results[std::min(i, reference)];
    const ComparedResult& other = results[std::max(i, reference)];
    remarks.push_back(unlike_lengths(one, other));
    remarks.push_back(unlike_weights(one, other));
  }
  std::erase_if(remarks, [](const std::string& remark) { return remark.empty(); });
  std::ranges::move(unlike_settings(results), std::back_inserter(remarks));
  return remarks;
}

// Of the trace that a result names.
fs::path trace_path(const std::string& result_path, const std::string& reference) {
  return fs::path(result_path).parent_path() / reference;
}

// The traces that the results name, if at least two do.
std::vector<model::LabelledTrace> read_traces(const std::vector<std::string>& paths,
                                              const std::vector<ComparedResult>& results,
                                              FileRoles& files) {
  std::vector<model::LabelledTrace> traces;
  const auto count = std::ranges::count_if(
      results, [](const ComparedResult& one) { return one.result.trace.has_value(); });
  for (std::size_t i = 0; count > 1 && i < results.size(); ++i) {
    const std::optional<std::string>& name = results[i].result.trace;
    if (!name) continue;
    const fs::path path = trace_path(paths[i], *name);
    files.reads("the trace of " + paths[i], path);
    traces.push_back(
        {results[i].label, model::parse_perfetto_json(read_file(path), path.string())});
  }
  return traces;
}

// Of runs whose weights are known, beside predictions for any weights.
void print_weights(const std::vector<ComparedResult>& results, std::ostream& out) {
  constexpr std::size_t kShown = 16;
  const bool any_prediction = std::ranges::any_of(results, [](const ComparedResult& one) {
    return one.result.origin == ResultOrigin::predicted && !one.result.weights_sha256;
  });
  for (const ComparedResult& one : results) {
    if (!any_prediction || one.result.origin == ResultOrigin::predicted) continue;
    if (one.result.weights_sha256)
      out << one.label << " with weights of SHA-256 "
          << one.result.weights_sha256->substr(0, kShown)
          << "; the prediction is for any weights of this geometry\n";
  }
}

}  // namespace

int compare_command(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "compare",
       .summary =
           "Results of one plan side by side: predictions, replays, measurements. A table of how\n"
           "they deviate from one of them, and with --out in DIR compare.csv, compare.png,\n"
           "compare.svg and, if at least two name their traces, trace.json for ui.perfetto.dev.\n"
           "Predictions of several plans, or runs of several, have ratios to one of them instead.",
       .positionals = {"predicted.json", "run.json", "[more.json ...]"},
       .flags = {{"reference", "FILE",
                  "the result from which the others deviate [the first; of a prediction and one "
                  "run, the run]"},
                 {"out", "DIR",
                  "folder for the table, figures and merged trace, made if need be [none]"},
                 {"json", "", "print every row as JSON"},
                 {"quiet", "", "print no table"}}},
      arguments);
  refuse_json_with_quiet(options);
  const std::optional<std::string> folder_name = options.text("out");
  if (options.has("quiet") && !folder_name)
    throw Usage("flag '--quiet' without '--out' would leave no result; give '--out DIR'");
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < options.positionals(); ++i) paths.push_back(options.positional(i));
  const std::vector<ComparedResult> results = read_results(paths);
  check_once(paths);
  const std::size_t reference = reference_of(options, paths, results);
  const model::Comparison comparison = compare(results, reference);
  std::vector<std::string> remarks = remarks_on(results, reference);

  FileRoles files;
  for (const std::string& path : paths) files.reads("argument " + path, path);
  std::vector<model::LabelledTrace> traces;
  if (folder_name) {
    traces = read_traces(paths, results, files);
    if (!traces.empty() && traces.size() < results.size())
      remarks.push_back("trace.json has the " + std::to_string(traces.size()) +
                        " results that name a trace");
    std::vector<std::string> names{"compare.csv", "compare.png", "compare.svg"};
    if (!traces.empty()) names.emplace_back("trace.json");
    files.writes_in("flag '--out'", *folder_name, names);
  }
  files.check();
  const bool json = options.has("json");
  const bool quiet = options.has("quiet");
  const bool table = !json && !quiet;
  options.settle();
  for (const std::string& remark : remarks)
    if (!quiet) std::cerr << "tandem compare: " << remark << '\n';
  if (folder_name) {
    const fs::path folder = make_folder(*folder_name);
    write_file(folder / "compare.csv", to_csv(comparison));
    if (!traces.empty()) write_file(folder / "trace.json", to_perfetto_json(traces));
  }
  if (json) {
    out << comparison_json(comparison, paths, remarks).dump(2) << '\n';
  } else if (table) {
    print_comparison(comparison, out);
    print_weights(results, out);
    print_origins(comparison, out);
  }
  out.flush();
  if (folder_name)
    draw_figure("compare.py", fs::path(*folder_name) / "compare.csv",
                fs::path(*folder_name) / "compare");
  return 0;
}

}  // namespace tandem::cli
