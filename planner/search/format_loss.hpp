#pragma once

// The quality loss of a model's messages and cache in fewer bits: measured by `tandem eval`,
// collected by scenarios/models/train/format_loss.py (docs/decisions/0107).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer/transformer.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/loss_budget.hpp"
#include "planner/search/measured_model.hpp"

namespace tandem::planner {

struct FormatLoss {
  std::string source;        // names the file in messages
  model::Transformer model;  // the measured model, by geometry
  std::vector<WeightsFile> weights{};
  // Where it was measured: a platform, its devices, and the names of strategies that sent messages.
  std::string platform;
  std::int64_t devices = 0;
  std::vector<std::string> strategies{};
  // Of each format by itself: the mean over parts of the text plus two standard errors, of the
  // strategy with the largest.
  FormatPrices prices{};
  std::int64_t documents = 0;

  // Throws Error unless it was measured for `transformer`.
  void check_model(const model::Transformer& transformer) const;
  // Returns a sentence for each aspect of `plan` that was not measured: weights in other formats,
  // another strategy, more devices.
  [[nodiscard]] std::vector<std::string> remarks(const Plan& plan) const;
};

// JSON, schema "tandem.format_loss/1". Throws Error naming `source`, the field, its value, what was
// expected and the remedy.
[[nodiscard]] FormatLoss parse_format_loss(std::string_view text, std::string_view source);

}  // namespace tandem::planner
