#include "study/experiment/measured_boards.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "model/base/error.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/predict/device_profile.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/replay/replay.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

using model::TaskKind;

constexpr std::array kProducts{TaskKind::project_qkv, TaskKind::project_out, TaskKind::ffn_up,
                               TaskKind::ffn_down};

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

planner::Plan plan_of(const ClusterRun& run) {
  planner::Request request{.model = run.transformer,
                           .cluster = run.cluster,
                           .strategy = "tensor",
                           .partition = "equal",
                           .allreduce = "star",
                           .workload = run.workload,
                           .wire = run.wire};
  for (const model::Device& device : request.cluster.devices())
    request.profiles.push_back(run.board ? profile_of(device, *run.board)
                                         : nominal_profile(device));
  auto answer = planner::make_plan(request);
  if (const auto* no = std::get_if<planner::Infeasible>(&answer)) throw Error(no->reason);
  return std::get<planner::Plan>(std::move(answer));
}

double seconds(const model::Csv& table, std::size_t row, std::string_view column) {
  return kMillisecond * paper_reading(table, row, column).value;
}

}  // namespace

std::size_t devices_of(const model::Csv& table, std::size_t row) {
  const Reading count = paper_reading(table, row, "devices");
  if (count.kind != Reading::Kind::number || count.value < 1.0)
    throw Error("scenarios/experiments: '" + table.at(row, "devices") +
                "' in column devices, expected a number of boards; restore the file from the "
                "sources");
  return static_cast<std::size_t>(count.value);
}

ClusterRun run_of(const Scenarios& scenarios, const model::Csv& table, std::size_t row) {
  ClusterRun run{.cluster = first_devices(scenarios.platform(table.at(row, "platform")),
                                          devices_of(table, row)),
                 .transformer = scenarios.model(table.at(row, "geometry"))};
  run.transformer.formats = model::WeightFormats(model::WeightFormat::q4_0);
  return run;
}

ClusterTimes times_of(const ClusterRun& run) {
  const planner::Plan plan = plan_of(run);
  planner::GenerationSteps steps(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  sim::replay_extrapolated(plan.cluster, plan.cost_model(), steps, recorder);
  const auto tokens = static_cast<double>(run.workload.new_tokens);
  const model::Metrics metrics = recorder.metrics();
  ClusterTimes times{.prompt_s = metrics.ttft_s, .token_s = metrics.token_times_s.back() / tokens};
  const auto& kinds = recorder.kinds()[static_cast<std::size_t>(plan.master)];
  for (int k = 0; k < model::kTaskKinds; ++k) {
    const auto kind = static_cast<TaskKind>(k);
    if (kind == TaskKind::capture || kind == TaskKind::deliver || kind == TaskKind::transfer)
      continue;
    times.compute_s += kinds[static_cast<std::size_t>(k)].total_s / tokens;
  }
  if (plan.devices.size() > 1) {
    // The platforms' first cable is the root's.
    times.root_bytes = recorder.links().front().bytes / tokens;
  }
  return times;
}

CalibrationRows calibration_rows(const model::Csv& table, std::string_view board) {
  const auto find = [&](std::size_t devices) {
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      if (table.at(i, "board") == board && table.at(i, "model") == kCalibrates &&
          devices_of(table, i) == devices)
        return i;
    }
    throw Error("scenarios/experiments/measured_clusters.csv: no row of " +
                std::string(kCalibrates) + " on " + std::to_string(devices) + " of " +
                std::string(board) + "; restore the file from the sources");
  };
  return {.one = find(1), .two = find(2)};
}

Board calibrated(const Scenarios& scenarios, const model::Csv& table, const CalibrationRows& rows) {
  const ClusterRun one = run_of(scenarios, table, rows.one);
  ClusterRun two = run_of(scenarios, table, rows.two);
  const auto affine = [](ClusterRun run, double target) {
    constexpr double kUnit = 1e-9;  // seconds
    run.board = Board{};
    const double rest = times_of(run).compute_s;
    run.board->byte_s = kUnit;
    const double bytes = (times_of(run).compute_s - rest) / kUnit;
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
        two.board = board;
        two.board->message_s = tried;
        return times_of(two).token_s;
      },
      seconds(table, rows.two, "token_ms"), kLeast, kMost);
  return board;
}

}  // namespace tandem::study
