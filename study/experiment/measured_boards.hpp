#pragma once

// Clusters that others measured, as runs of this program: what is stated of a board with its
// software, and the times that follow.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "model/base/csv.hpp"
#include "model/cluster/cluster.hpp"
#include "model/transformer/transformer.hpp"
#include "model/transformer/wire_format.hpp"
#include "planner/plan/workload.hpp"
#include "study/experiment/experiment.hpp"

namespace tandem::study {

// The model whose rows calibrate a board in measured_clusters.csv.
inline constexpr std::string_view kCalibrates = "llama-2-7b";
inline constexpr std::int64_t kMeasuredTokens = 16;  // the prompt is short
inline constexpr double kMillisecond = 1e-3;

// Times of a board with its software that its data sheet does not state.
struct Board {
  double byte_s = 0.0;     // of products, for each byte of weights
  double layer_s = 0.0;    // of a layer, however many boards share it
  double message_s = 0.0;  // of a message, beside its bytes and the cable
};

// A row of the files, as a run of this program: `tensor`, equal shares, a star through the root.
struct ClusterRun {
  model::Cluster cluster;
  model::Transformer transformer;
  model::WireFormat wire = model::WireFormat::q8_0;
  planner::Workload workload{.prompt_tokens = 1, .new_tokens = kMeasuredTokens};
  std::optional<Board> board{};  // none: the platform's rates, by model::nominal_profile
};

struct ClusterTimes {
  double prompt_s = 0.0;    // until the first token
  double token_s = 0.0;     // mean of all tokens, the first included
  double compute_s = 0.0;   // of a token, of the root's tasks; copies of messages are none
  double root_bytes = 0.0;  // of a token, sent and received by the root
};

// Returns the number in column `devices`. Throws Error (restore the file) unless it is one.
[[nodiscard]] std::size_t devices_of(const model::Csv& table, std::size_t row);

// Returns a row's run: columns platform, devices and geometry; weights in q4_0.
[[nodiscard]] ClusterRun run_of(const Scenarios& scenarios, const model::Csv& table,
                                std::size_t row);

// Returns the run's times by SimGrid, where all messages of a sum share the root's cable.
[[nodiscard]] ClusterTimes times_of(const ClusterRun& run);

// A board's rows of the model that calibrates, on one and on two.
struct CalibrationRows {
  std::size_t one = 0;
  std::size_t two = 0;
};

// Returns the rows of `board` in measured_clusters.csv. Throws Error if one is missing.
[[nodiscard]] CalibrationRows calibration_rows(const model::Csv& table, std::string_view board);

// Returns the constants of the board of these rows of measured_clusters.csv. The root's compute
// time is affine in byte_s and layer_s, and two rows give both:
//   compute(n) = compute(n; 0, 0) + bytes(n) byte_s + layers layer_s
// Then message_s is the rest of two boards' token time.
[[nodiscard]] Board calibrated(const Scenarios& scenarios, const model::Csv& table,
                               const CalibrationRows& rows);

}  // namespace tandem::study
