#pragma once

// What sparse attention of a model costs in quality: measured by `tandem eval`, fitted by
// scenarios/models/train/sparse_loss.py (docs/decisions/0057).

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/range.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Bits per byte of held-out text beyond those with nothing dropped:
//   loss = sum over terms t of f_t(x_t)
//   x_t   mean part of rows that is dropped at the term's levels, in the layers of its bands
//   f_t   linear between knots, 0 at 0, never falling
// so that nothing dropped costs nothing and more dropped never costs less.
struct LossTerm {
  std::vector<std::int32_t> bands;   // indices, ascending
  std::vector<std::int32_t> levels;  // from 2 on, ascending
  std::vector<double> loss;          // f_t by knot
};

// A file of weights, as it was measured with.
struct WeightsFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string tail_sha256;  // of its last kTailBytes, or of all if it has fewer
  bool operator==(const WeightsFile&) const = default;
};
inline constexpr std::int64_t kTailBytes = std::int64_t{1} << 20U;

struct LossModel {
  std::string source;        // names the file in messages
  model::Transformer model;  // whose loss it is, by geometry
  std::vector<WeightsFile> weights{};
  // What was measured: a prompt's places (SparseAttention::order), by part of the rows, and their
  // groups at levels 2 to the last but one; lengths of prompts.
  std::string platform;
  std::vector<double> rows{};
  std::vector<std::vector<std::int32_t>> groups{};
  std::int64_t least_tokens = 0;
  std::int64_t most_tokens = 0;
  std::vector<model::Range> bands{};  // of layers that may drop, all of them
  std::vector<double> knots{};        // parts dropped, 0 the first, the last the most measured
  std::vector<LossTerm> terms{};
  std::int64_t settings = 0;  // measured
  // Of settings that the fit did not see, in bits per byte: root mean square and worst error, and
  // the former of predicting the mean.
  double held_out_rms = 0.0;
  double held_out_worst = 0.0;
  double mean_rms = 0.0;

  [[nodiscard]] std::int32_t levels() const { return static_cast<std::int32_t>(groups.size()) + 2; }
  [[nodiscard]] double most_dropped() const { return knots.back(); }
  // By band, and by measured level from the second on, the mean part that is dropped.
  [[nodiscard]] double loss(const std::vector<std::vector<double>>& dropped) const;
  // Throws Error as level_of does, and for ratios beyond those that were measured.
  [[nodiscard]] double loss(const SparseAttention& sparse) const;
  // By measured level from the second on: at which level `sparse` has the rows that lie there.
  // Rows that two levels drop alike are as those of one level, so a plan may tell fewer levels
  // apart than were measured, on as many places. Throws Error where it has other places or groups.
  [[nodiscard]] std::vector<std::int32_t> level_of(const SparseAttention& sparse) const;
  // Throws Error unless it is `transformer`'s.
  void check_model(const model::Transformer& transformer) const;
  // What it does not know of in `plan`, a sentence each: other lengths, rows dealt otherwise,
  // weights, caches or messages in other formats.
  [[nodiscard]] std::vector<std::string> remarks(const Plan& plan) const;
};

// JSON, schema "tandem.sparse_loss/1". Throws Error naming `source`, the field, its value, what was
// expected and the remedy.
[[nodiscard]] LossModel parse_loss_model(std::string_view text, std::string_view source);

}  // namespace tandem::planner
