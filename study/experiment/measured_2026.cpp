#include "study/experiment/measured_2026.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/word_list.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/transformer/format_choice.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

constexpr std::string_view kPlatform = "platform";

[[noreturn]] void fail(const model::Csv& table, std::size_t row, const std::string& column,
                       const std::string& expected) {
  throw Error("scenarios/experiments/measured_clusters_2026.csv: '" + table.at(row, column) +
              "' in column " + column + ", expected " + expected +
              "; restore the file from the sources");
}

// Returns the row's devices: as many as it has of the platform's first, or its `host` alone.
model::Cluster cluster_of(const Scenarios& scenarios, const model::Csv& table, std::size_t row) {
  const model::Cluster all = scenarios.platform(table.at(row, "platform"));
  const std::string& host = table.at(row, "host");
  if (host.empty()) return first_devices(all, devices_of(table, row));
  const auto found = std::ranges::find(all.devices(), host, &model::Device::name);
  if (found == all.devices().end()) fail(table, row, "host", "a host of the platform");
  return first_devices(
      with_exchanged(all, 0, static_cast<model::DeviceIndex>(found - all.devices().begin())), 1);
}

ClusterRun later_run(const Scenarios& scenarios, const model::Csv& table, std::size_t row,
                     const std::map<std::string, Board>& boards) {
  ClusterRun run{.cluster = cluster_of(scenarios, table, row),
                 .transformer = scenarios.model(table.at(row, "geometry"))};
  const auto formats = model::chosen_formats(table.at(row, "format"), run.transformer);
  if (!formats) fail(table, row, "format", "a format of weights");
  run.transformer.formats = *formats;
  if (const std::string& rates = table.at(row, "rates"); rates != kPlatform) {
    const auto board = boards.find(rates);
    if (board == boards.end()) fail(table, row, "rates", "'platform' or a board");
    run.board = board->second;
  }
  return run;
}

// Milliseconds of a prompt's token: all tokens of a prompt are one step.
double prompt_ms(ClusterRun run, const Reading& tokens) {
  run.workload = {.prompt_tokens = std::llround(tokens.value), .new_tokens = 1};
  return times_of(run).prompt_s / tokens.value / kMillisecond;
}

void add_row(const model::Csv& table, std::size_t row, const ClusterRun& run,
             ExperimentReport& report) {
  const std::vector<std::string> keys{table.at(row, "board") + ", " + table.at(row, "software"),
                                      table.at(row, "model"), table.at(row, "devices"),
                                      run.cluster.size() > 1 ? "q8_0" : "none"};
  const std::vector<std::string> calibrated = model::split_list(table.at(row, "calibrated"));
  const auto add = [&](const std::string& quantity, double predicted) {
    report.rows.push_back(
        {.keys = keys,
         .quantity = quantity,
         .paper = paper_reading(table, row, quantity),
         .tandem = Reading::number(predicted),
         .calibrated = std::ranges::find(calibrated, quantity) != calibrated.end()});
  };
  const auto has = [&](const std::string& quantity) { return !table.at(row, quantity).empty(); };
  if (has("compute_ms") || has("token_ms")) {
    const ClusterTimes times = times_of(run);
    if (has("compute_ms")) add("compute_ms", times.compute_s / kMillisecond);
    if (has("token_ms")) add("token_ms", times.token_s / kMillisecond);
  }
  if (has("prompt_ms"))
    add("prompt_ms", prompt_ms(run, paper_reading(table, row, "prompt_tokens")));
}

}  // namespace

void add_measured_2026(const Scenarios& scenarios, const model::Csv& table,
                       const std::map<std::string, Board>& boards, ExperimentReport& report,
                       Progress& progress) {
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (const std::string& reason = table.at(i, "left_out"); !reason.empty()) {
      report.remarks.push_back("left out: " + table.at(i, "board") + ", " +
                               table.at(i, "software") + " (" + table.at(i, "source") +
                               "): " + reason);
    } else {
      add_row(table, i, later_run(scenarios, table, i, boards), report);
    }
    progress.advance(1);
  }
}

}  // namespace tandem::study
