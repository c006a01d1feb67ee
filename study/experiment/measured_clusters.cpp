// Clusters of others: token times that users of distributed-llama measured on one to eight
// Raspberry Pi, the bytes of a token through its root, and what others measured since.

#include <map>
#include <string>
#include <vector>

#include "model/base/error.hpp"
#include "model/base/text_table.hpp"
#include "study/experiment/experiment.hpp"
#include "study/experiment/measured_2026.hpp"
#include "study/experiment/measured_boards.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

constexpr double kKiB = 1024.0;

std::string remark(const std::string& name, const std::string& platform, const Board& board) {
  return name + " (scenarios/platforms/" + platform + ".xml, from its data sheet): products at " +
         rate_text(1.0 / board.byte_s) + " of weights, " +
         model::fixed(board.layer_s / kMillisecond, 2) +
         " ms of a layer that boards do not share (compute of " + std::string(kCalibrates) +
         " on one and on two), " + model::fixed(board.message_s / kMillisecond, 3) +
         " ms a message beside its bytes (token of " + std::string(kCalibrates) + " on two)";
}

// Adds the rows of measured_clusters.csv and returns its boards.
std::map<std::string, Board> add_times(const Scenarios& scenarios, const model::Csv& table,
                                       ExperimentReport& report, Progress& progress) {
  std::map<std::string, Board> known;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::string& name = table.at(i, "board");
    const CalibrationRows rows = calibration_rows(table, name);
    auto board = known.find(name);
    if (board == known.end()) {
      board = known.emplace(name, calibrated(scenarios, table, rows)).first;
      report.remarks.push_back(remark(name, table.at(i, "platform"), board->second));
    }
    ClusterRun run = run_of(scenarios, table, i);
    run.board = board->second;
    const ClusterTimes times = times_of(run);
    const std::vector<std::string> keys{name, table.at(i, "model"), table.at(i, "devices"), "q8_0"};
    report.rows.push_back({.keys = keys,
                           .quantity = "compute_ms",
                           .paper = paper_reading(table, i, "compute_ms"),
                           .tandem = Reading::number(times.compute_s / kMillisecond),
                           .calibrated = i == rows.one || i == rows.two});
    report.rows.push_back({.keys = keys,
                           .quantity = "token_ms",
                           .paper = paper_reading(table, i, "token_ms"),
                           .tandem = Reading::number(times.token_s / kMillisecond),
                           .calibrated = i == rows.two});
    progress.advance(1);
  }
  return known;
}

// Rows of measured_traffic.csv: bytes depend on no board.
void add_traffic(const Scenarios& scenarios, const model::Csv& table, ExperimentReport& report,
                 Progress& progress) {
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    ClusterRun run = run_of(scenarios, table, i);
    const auto wire = model::find_wire_format(table.at(i, "wire"));
    if (!wire)
      throw Error("scenarios/experiments/measured_traffic.csv: '" + table.at(i, "wire") +
                  "' in column wire, expected one of " + model::wire_format_names() +
                  "; restore the file from the sources");
    run.wire = *wire;
    report.rows.push_back(
        {.keys = {"any", table.at(i, "model"), table.at(i, "devices"), table.at(i, "wire")},
         .quantity = "traffic_kib",
         .paper = paper_reading(table, i, "traffic_kib"),
         .tandem = Reading::number(times_of(run).root_bytes / kKiB)});
    progress.advance(1);
  }
}

}  // namespace

ExperimentReport measured_clusters(const Scenarios& scenarios, Progress& progress) {
  const model::Csv times = scenarios.paper("measured_clusters");
  const model::Csv traffic = scenarios.paper("measured_traffic");
  ExperimentReport report{
      .key_names = {"board", "model", "devices", "wire"},
      .rows = {},
      .remarks = {"tensor, equal shares, a star through the root; weights q4_0 "
                  "unless a row states others, " +
                  std::to_string(kMeasuredTokens) + " tokens; compute is the root's"}};
  report.theirs = "measured";
  const model::Csv later = scenarios.paper("measured_clusters_2026");
  progress.expect(times.rows.size() + traffic.rows.size() + later.rows.size());
  const std::map<std::string, Board> boards = add_times(scenarios, times, report, progress);
  add_traffic(scenarios, traffic, report, progress);
  add_measured_2026(scenarios, later, boards, report, progress);
  return report;
}

}  // namespace tandem::study
