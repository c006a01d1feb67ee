// Clusters of others: token times that users of distributed-llama measured on one to eight
// Raspberry Pi, and the bytes of a token through its root.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "model/base/text_table.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/replay/replay.hpp"
#include "study/experiment/experiment.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

using model::TaskKind;

constexpr std::string_view kCalibrates = "llama-2-7b";
constexpr std::int64_t kSamples = 16;  // tokens that were measured; the prompt is short
constexpr double kKiB = 1024.0;
constexpr double kMillisecond = 1e-3;
constexpr std::array kProducts{TaskKind::project_qkv, TaskKind::project_out, TaskKind::ffn_up,
                               TaskKind::ffn_down};

// Times of a board with its software that its data sheet does not state.
struct Board {
  double byte_s = 0.0;     // of products, for each byte of weights
  double layer_s = 0.0;    // of a layer, however many boards share it
  double message_s = 0.0;  // of a message, beside its bytes and the cable
};

// A row of the files, as a run of this program.
struct ClusterRun {
  model::Cluster cluster;
  model::Transformer transformer;
  model::WireFormat wire = model::WireFormat::q8_0;
};

struct ClusterTimes {
  double token_s = 0.0;
  double compute_s = 0.0;   // of a token, of the root's tasks; copies of messages are none
  double root_bytes = 0.0;  // of a token, sent and received by the root
};

std::size_t count_of(const model::Csv& table, std::size_t row) {
  const Reading count = paper_reading(table, row, "devices");
  if (count.kind != Reading::Kind::number || count.value < 1.0)
    throw Error("scenarios/experiments: '" + table.at(row, "devices") +
                "' in column devices, expected a number of boards; restore the file from the "
                "sources");
  return static_cast<std::size_t>(count.value);
}

ClusterRun run_of(const Scenarios& scenarios, const model::Csv& table, std::size_t row) {
  ClusterRun run{
      .cluster = first_devices(scenarios.platform(table.at(row, "platform")), count_of(table, row)),
      .transformer = scenarios.model(table.at(row, "geometry"))};
  run.transformer.formats = model::WeightFormats(model::WeightFormat::q4_0);
  return run;
}

// Returns the data sheet's profile, except for products, which take byte_s a byte and layer_s in
// all of a layer, and for messages. The software's threads, one a core, send and receive
// concurrently, each with its own sockets: a message's time counts on its channel.
model::DeviceProfile profile_of(const model::Device& device, const Board& board) {
  model::DeviceProfile profile = nominal_profile(device);
  for (model::FormatRates& of : profile.formats) {
    for (const TaskKind kind : kProducts) {
      of.rate[static_cast<std::size_t>(kind)] = {
          .overhead_s = board.layer_s / static_cast<double>(kProducts.size()),
          .points = {{1.0, board.byte_s}}};
    }
    of.rate[static_cast<std::size_t>(TaskKind::lm_head)].points = {{1.0, board.byte_s}};
  }
  profile.rate[static_cast<std::size_t>(TaskKind::transfer)].overhead_s = board.message_s;
  return profile;
}

planner::Plan plan_of(const ClusterRun& run, const Board& board) {
  planner::Request request{.model = run.transformer,
                           .cluster = run.cluster,
                           .strategy = "tensor",
                           .partition = "equal",
                           .allreduce = "star",
                           .workload = {.prompt_tokens = 1, .new_tokens = kSamples},
                           .wire = run.wire};
  for (const model::Device& device : request.cluster.devices())
    request.profiles.push_back(profile_of(device, board));
  auto answer = planner::make_plan(request);
  if (const auto* no = std::get_if<planner::Infeasible>(&answer)) throw Error(no->reason);
  return std::get<planner::Plan>(std::move(answer));
}

// By SimGrid: all messages of a sum share the root's cable. Every step has one row, the prompt's
// too.
ClusterTimes times_of(const ClusterRun& run, const Board& board) {
  const planner::Plan plan = plan_of(run, board);
  planner::GenerationSteps steps(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  sim::replay_extrapolated(plan.cluster, plan.cost_model(), steps, recorder);
  ClusterTimes times;
  times.token_s = recorder.metrics().token_times_s.back() / kSamples;
  const auto& kinds = recorder.kinds()[static_cast<std::size_t>(plan.master)];
  for (int k = 0; k < model::kTaskKinds; ++k) {
    const auto kind = static_cast<TaskKind>(k);
    if (kind == TaskKind::capture || kind == TaskKind::deliver || kind == TaskKind::transfer)
      continue;
    times.compute_s += kinds[static_cast<std::size_t>(k)].total_s / kSamples;
  }
  if (plan.devices.size() > 1) {
    // The platforms' first cable is the root's.
    times.root_bytes = recorder.links().front().bytes / kSamples;
  }
  return times;
}

// A board's rows of the model that calibrates, on one and on two.
struct CalibrationRows {
  std::size_t one = 0;
  std::size_t two = 0;
};

CalibrationRows calibration_rows(const model::Csv& table, std::string_view board) {
  const auto find = [&](std::size_t devices) {
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      if (table.at(i, "board") == board && table.at(i, "model") == kCalibrates &&
          count_of(table, i) == devices)
        return i;
    }
    throw Error("scenarios/experiments/measured_clusters.csv: no row of " +
                std::string(kCalibrates) + " on " + std::to_string(devices) + " of " +
                std::string(board) + "; restore the file from the sources");
  };
  return {.one = find(1), .two = find(2)};
}

double seconds(const model::Csv& table, std::size_t row, std::string_view column) {
  return kMillisecond * paper_reading(table, row, column).value;
}

// The root's compute time is affine in byte_s and layer_s, and two rows give both:
//   compute(n) = compute(n; 0, 0) + bytes(n) byte_s + layers layer_s
// Then message_s is the rest of two boards' token time.
Board calibrated(const Scenarios& scenarios, const model::Csv& table, const CalibrationRows& rows) {
  const ClusterRun one = run_of(scenarios, table, rows.one);
  const ClusterRun two = run_of(scenarios, table, rows.two);
  const auto affine = [](const ClusterRun& run, double target) {
    constexpr double kUnit = 1e-9;  // seconds
    const double rest = times_of(run, {}).compute_s;
    const double bytes = (times_of(run, {.byte_s = kUnit}).compute_s - rest) / kUnit;
    return std::pair(bytes, target - rest);
  };
  const auto [bytes1, target1] = affine(one, seconds(table, rows.one, "compute_ms"));
  const auto [bytes2, target2] = affine(two, seconds(table, rows.two, "compute_ms"));
  Board board;
  board.byte_s = (target1 - target2) / (bytes1 - bytes2);
  board.layer_s = (target1 - bytes1 * board.byte_s) / static_cast<double>(one.transformer.layers);
  if (!(board.byte_s > 0.0) || !(board.layer_s >= 0.0))
    throw Error("scenarios/experiments/measured_clusters.csv: two boards compute in " +
                table.at(rows.two, "compute_ms") + " ms and one in " +
                table.at(rows.one, "compute_ms") +
                ", expected more than half and less than all of it; restore the file from the "
                "sources");
  constexpr double kLeast = 1e-7;
  constexpr double kMost = 1e-1;
  board.message_s = solve(
      [&](double tried) {
        Board with = board;
        with.message_s = tried;
        return times_of(two, with).token_s;
      },
      seconds(table, rows.two, "token_ms"), kLeast, kMost);
  return board;
}

std::string remark(const std::string& name, const std::string& platform, const Board& board) {
  return name + " (scenarios/platforms/" + platform + ".xml, from its data sheet): products at " +
         rate_text(1.0 / board.byte_s) + " of weights, " +
         model::fixed(board.layer_s / kMillisecond, 2) +
         " ms of a layer that boards do not share (compute of " + std::string(kCalibrates) +
         " on one and on two), " + model::fixed(board.message_s / kMillisecond, 3) +
         " ms a message beside its bytes (token of " + std::string(kCalibrates) + " on two)";
}

// Rows of measured_clusters.csv, board by board.
void add_times(const Scenarios& scenarios, const model::Csv& table, ExperimentReport& report,
               Progress& progress) {
  std::vector<std::pair<std::string, Board>> known;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::string& name = table.at(i, "board");
    const CalibrationRows rows = calibration_rows(table, name);
    auto board = std::ranges::find(known, name, &std::pair<std::string, Board>::first);
    if (board == known.end()) {
      known.emplace_back(name, calibrated(scenarios, table, rows));
      board = known.end() - 1;
      report.remarks.push_back(remark(name, table.at(i, "platform"), board->second));
    }
    const ClusterTimes times = times_of(run_of(scenarios, table, i), board->second);
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
         .tandem = Reading::number(times_of(run, {}).root_bytes / kKiB)});
    progress.advance(1);
  }
}

}  // namespace

ExperimentReport measured_clusters(const Scenarios& scenarios, Progress& progress) {
  const model::Csv times = scenarios.paper("measured_clusters");
  const model::Csv traffic = scenarios.paper("measured_traffic");
  ExperimentReport report{.key_names = {"board", "model", "devices", "wire"},
                          .rows = {},
                          .remarks = {"tensor, equal shares, a star through the root; weights "
                                      "q4_0, " +
                                      std::to_string(kSamples) + " tokens; compute is the root's"}};
  report.theirs = "measured";
  progress.expect(times.rows.size() + traffic.rows.size());
  add_times(scenarios, times, report, progress);
  add_traffic(scenarios, traffic, report, progress);
  return report;
}

}  // namespace tandem::study
