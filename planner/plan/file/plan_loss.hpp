#pragma once

// What a plan loses of the model's quality: the field `loss` of its file.

#include <nlohmann/json_fwd.hpp>

#include "model/base/json_value.hpp"

namespace tandem::planner {

// What a plan loses of the model's quality, by measured losses, in bits per byte of text more
// than with nothing dropped, and messages and cache in f32.
struct PlanLoss {
  double most = 0.0;  // the bound
  double messages = 0.0;
  double cache = 0.0;
  double dropping = 0.0;
  [[nodiscard]] double total() const { return messages + cache + dropping; }
  bool operator==(const PlanLoss&) const = default;
};

// Returns the value of `loss`: unit, `most`, `total` and its parts.
[[nodiscard]] nlohmann::ordered_json json_of(const PlanLoss& loss);
// Reads it. Throws Error naming the field for a total that is not the sum or exceeds the bound.
[[nodiscard]] PlanLoss read_plan_loss(const model::JsonValue& loss);

}  // namespace tandem::planner
