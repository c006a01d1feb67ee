#pragma once

// The quality loss of a model's sparse attention: measured by `tandem eval`, fitted by
// scenarios/models/train/sparse_loss.py (docs/decisions/0057).

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/range.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/measured_model.hpp"

namespace tandem::planner {

// Loss in bits per byte of held-out text relative to dropping nothing:
//   loss = sum over terms t of f_t(x_t)
//   x_t   mean part of rows dropped at the term's levels, in the layers of its bands
//   f_t   piecewise linear between knots, 0 at 0, never decreasing
// so dropping nothing costs nothing, and dropping more never costs less.
struct LossTerm {
  std::vector<std::int32_t> bands;   // indices, ascending
  std::vector<std::int32_t> levels;  // from 2 on, ascending
  std::vector<double> loss;          // f_t by knot
};

struct LossModel {
  std::string source;        // names the file in messages
  model::Transformer model;  // the measured model, by geometry
  std::vector<WeightsFile> weights{};
  // The measured setup: a prompt's places (SparseAttention::order) by part of the rows, their
  // groups at levels 2 to the last but one, and lengths of prompts.
  std::string platform;
  std::vector<double> rows{};
  std::vector<std::vector<std::int32_t>> groups{};
  std::int64_t least_tokens = 0;
  std::int64_t most_tokens = 0;
  std::vector<model::Range> bands{};  // of layers that may drop, all of them
  std::vector<double> knots{};        // parts dropped: from 0 to the largest measured one
  std::vector<LossTerm> terms{};
  std::int64_t settings = 0;  // measured
  // On settings held out from the fit, in bits per byte: root mean square and worst error, and the
  // former for predicting the mean.
  double held_out_rms = 0.0;
  double held_out_worst = 0.0;
  double mean_rms = 0.0;

  [[nodiscard]] std::int32_t levels() const { return static_cast<std::int32_t>(groups.size()) + 2; }
  [[nodiscard]] double most_dropped() const { return knots.back(); }
  // Returns the loss for the mean parts dropped, by band and measured level from the second on.
  [[nodiscard]] double loss(const std::vector<std::vector<double>>& dropped) const;
  // The same for a plan's ratios. Throws Error as level_of does, and beyond the measured ratios.
  [[nodiscard]] double loss(const SparseAttention& sparse) const;
  // Returns, by measured level from the second on, the level of `sparse` that its rows belong to.
  // Rows dropped equally by two levels act as one level, so a plan may have fewer levels than were
  // measured, on the same places. Throws Error for other places or groups.
  [[nodiscard]] std::vector<std::int32_t> level_of(const SparseAttention& sparse) const;
  // Throws Error unless it was measured for `transformer`.
  void check_model(const model::Transformer& transformer) const;
  // Returns a sentence for each aspect of `plan` that was not measured: other lengths, another
  // partition of rows, other formats of weights, caches or messages.
  [[nodiscard]] std::vector<std::string> remarks(const Plan& plan) const;
};

// JSON, schema "tandem.sparse_loss/1". Throws Error naming `source`, the field, its value, what was
// expected and the remedy.
[[nodiscard]] LossModel parse_loss_model(std::string_view text, std::string_view source);

}  // namespace tandem::planner
