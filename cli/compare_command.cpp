// tandem compare: holds a prediction against a measurement.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <system_error>

#include "cli/files/figure.hpp"
#include "cli/files/files.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/shown.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/report/comparison.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using model::Comparison;
using model::Deviation;
using model::Result;

Result read_result(const std::string& path) {
  return model::parse_result_json(read_file(path), path);
}

std::string value_text(const std::optional<double>& value, const std::string& unit) {
  if (!value) return "-";
  const double size = std::abs(*value);
  std::string text = *value < 0.0 ? "-" : "";
  if (unit == "s") {
    text.append(to_text(model::Seconds{size}));
  } else if (unit == "bytes") {
    text.append(to_text(model::Bytes{size}));
  } else if (unit == "tokens/s") {
    text.append(model::fixed(size, size < 10.0 ? 2 : size < 100.0 ? 1 : 0)).append("/s");
  } else {
    text.append(model::fixed(100.0 * size, 1)).append("%");  // a fraction
  }
  return text;
}

std::string signed_text(const std::optional<double>& value, const std::string& unit) {
  std::string text = value && *value > 0.0 ? "+" : "";
  text.append(value_text(value, unit));
  // Of fractions in percent the difference is in points, the deviation in percent is another.
  if (value && unit == "1") text.replace(text.size() - 1, 1, " points");
  return text;
}

std::string percent_text(const std::optional<double>& percent) {
  if (!percent) return "-";
  std::string text = *percent > 0.0 ? "+" : "";
  return text.append(model::fixed(*percent, 1)).append("%");
}

std::string label(const Deviation& row) {
  std::string text = row.metric;
  std::replace(text.begin(), text.end(), '_', ' ');
  return row.name.empty() ? text : row.name + ' ' + text;
}

// The device rows that the terminal shows; the CSV has all.
bool shown(const Deviation& row) {
  return row.metric == "memory_total" || row.metric == "sent" || row.metric == "busy_cpu" ||
         row.metric == "stall" || (row.metric == "loaded" && row.measured.value_or(0.0) > 0.0);
}

std::vector<const Deviation*> rows_of(const Comparison& comparison, std::string_view scope) {
  std::vector<const Deviation*> rows;
  for (const Deviation& row : comparison.rows) {
    if (row.scope == scope) rows.push_back(&row);
  }
  return rows;
}

// The kinds of task whose total times deviate most, in seconds.
std::vector<const Deviation*> worst_tasks(const Comparison& comparison) {
  constexpr std::size_t kShown = 5;
  std::vector<const Deviation*> rows = rows_of(comparison, "task");
  std::erase_if(rows, [](const Deviation* row) {
    return row->metric != "total" || std::abs(row->absolute().value_or(0.0)) == 0.0;
  });
  std::stable_sort(rows.begin(), rows.end(), [](const Deviation* a, const Deviation* b) {
    return std::abs(*a->absolute()) > std::abs(*b->absolute());
  });
  rows.resize(std::min(rows.size(), kShown));
  return rows;
}

void print_comparison(const Comparison& comparison, std::ostream& out) {
  model::Table table({"", "predicted", comparison.run_kind, "deviation", "percent"});
  const auto add = [&](const Deviation& row) {
    table.add({label(row), value_text(row.predicted, row.unit), value_text(row.measured, row.unit),
               signed_text(row.absolute(), row.unit), percent_text(row.percent())});
  };
  for (const Deviation* row : rows_of(comparison, "run")) {
    if (row->predicted || row->measured) add(*row);
  }
  std::string device;
  for (const Deviation* row : rows_of(comparison, "request")) add(*row);
  for (const Deviation* row : rows_of(comparison, "device")) {
    if (!shown(*row)) continue;
    if (row->name != device) table.add({"", "", "", "", ""});
    device = row->name;
    add(*row);
  }
  const std::vector<const Deviation*> tasks = worst_tasks(comparison);
  if (!tasks.empty()) table.add({"", "", "", "", ""});
  for (const Deviation* row : tasks) add(*row);
  table.print(out);
  for (const Deviation& row : comparison.rows) {
    if (row.scope != "token" || !comparison.worst_token ||
        row.name != std::to_string(*comparison.worst_token))
      continue;
    out << "\nworst token: number " << *comparison.worst_token + 1 << ", predicted "
        << value_text(row.predicted, "s") << ", " << comparison.run_kind << ' '
        << value_text(row.measured, "s") << " ("
        << percent_text(row.percent()) << ")\n";
  }
  if (comparison.worst_percent)
    out << "largest deviation of TTFT, mean and median token latency: "
        << model::fixed(*comparison.worst_percent, 1) << "% of the " << comparison.run_kind << " value\n";
}

template <class T>
Json nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json to_json(const Comparison& comparison, const std::vector<std::string>& remarks) {
  Json json{{"schema", "tandem.comparison/2"},
            {"remarks", remarks},
            {"worst_percent", nullable(comparison.worst_percent)},
            {"worst_token", nullable(comparison.worst_token)},
            {"rows", Json::array()}};
  for (const Deviation& row : comparison.rows)
    json["rows"].push_back({{"scope", row.scope},
                            {"name", row.name},
                            {"metric", row.metric},
                            {"unit", row.unit},
                            {"predicted", nullable(row.predicted)},
                            {"measured", nullable(row.measured)},
                            {"absolute", nullable(row.absolute())},
                            {"percent", nullable(row.percent())}});
  return json;
}

// What times of this origin are worth beside a prediction, a line; empty: there is nothing to say.
std::string_view origin_remark(model::ResultOrigin origin) {
  switch (origin) {
    case model::ResultOrigin::replayed:
      return "replayed on emulated devices at nominal pace: times are calculated from the same sums "
             "as the prediction's, so they test the program and not the prediction\n";
    case model::ResultOrigin::measured_emulated:
      return "measured on emulated devices, compute paced to measured times\n";
    case model::ResultOrigin::measured_testbed:
      return "measured on a testbed of network namespaces\n";
    case model::ResultOrigin::predicted:
    case model::ResultOrigin::measured:
      return "";
  }
  throw std::logic_error("origin_remark: no such origin");
}

// Of the trace that a result names.
fs::path trace_path(const std::string& result_path, const std::string& reference) {
  return fs::path(result_path).parent_path() / reference;
}

model::Trace read_trace(const std::string& result_path, const std::string& reference) {
  const fs::path path = trace_path(result_path, reference);
  return model::parse_perfetto_json(read_file(path), path.string());
}

}  // namespace

int compare_command(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "compare",
       .summary =
           "Deviation of a prediction from a measurement of the same plan: a table, and in DIR\n"
           "compare.csv, compare.png, compare.svg and, if both results name their traces,\n"
           "trace.json for ui.perfetto.dev.",
       .positionals = {"predicted.json", "measured.json"},
       .flags = {{"out", "DIR", "folder to write, made if need be (required)"},
                 {"json", "", "print every row as JSON"},
                 {"quiet", "", "print no table"}}},
      arguments);
  refuse_json_with_quiet(options);
  const std::string folder_name = options.required("out");
  const std::string& predicted_path = options.positional(0);
  const std::string& measured_path = options.positional(1);
  const Result predicted = read_result(predicted_path);
  const Result measured = read_result(measured_path);
  const Comparison comparison = compare(predicted, measured);
  std::vector<std::string> remarks{unlike_lengths(predicted, measured),
                                   unlike_weights(predicted, measured)};
  std::erase_if(remarks, [](const std::string& remark) { return remark.empty(); });
  std::optional<std::string> merged;
  if (predicted.trace && measured.trace)
    merged =
        to_perfetto_json({{"predicted", read_trace(predicted_path, *predicted.trace)},
                          {comparison.run_kind, read_trace(measured_path, *measured.trace)}});

  FileRoles files;
  files.reads("argument predicted.json", predicted_path);
  files.reads("argument measured.json", measured_path);
  if (merged) {
    files.reads("the trace of " + predicted_path, trace_path(predicted_path, *predicted.trace));
    files.reads("the trace of " + measured_path, trace_path(measured_path, *measured.trace));
  }
  std::vector<std::string> names{"compare.csv", "compare.png", "compare.svg"};
  if (merged) names.emplace_back("trace.json");
  files.writes_in("flag '--out'", folder_name, names);
  files.check();
  const bool json = options.has("json");
  const bool quiet = options.has("quiet");
  const bool table = !json && !quiet;
  options.settle();
  for (const std::string& remark : remarks)
    if (!quiet) std::cerr << "tandem compare: " << remark << '\n';
  const fs::path folder = make_folder(folder_name);
  write_file(folder / "compare.csv", to_csv(comparison));
  if (merged) write_file(folder / "trace.json", *merged);
  if (json) {
    out << to_json(comparison, remarks).dump(2) << '\n';
  } else if (table) {
    print_comparison(comparison, out);
    if (measured.weights_sha256 && !predicted.weights_sha256)
      out << comparison.run_kind << " with weights of SHA-256 "
          << measured.weights_sha256->substr(0, 16)
          << "; the prediction is for any weights of this geometry\n";
    out << origin_remark(measured.origin);
  }
  out.flush();
  draw_figure("compare.py", folder / "compare.csv", folder / "compare");
  return 0;
}

}  // namespace tandem::cli
