#pragma once

// An invented loss of what sparse attention drops, for tests of `plan --max-loss`.

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace tandem::test {

// Returns the file of layers 2 and 3 with two levels, which lose `losses` for the ratios 0, 0.5 and
// 0.9.
inline nlohmann::json sparse_loss_of(nlohmann::json model, nlohmann::json weights,
                                     const std::vector<double>& losses) {
  return {{"schema", "tandem.sparse_loss/1"},
          {"unit", "bits per byte more than with nothing dropped"},
          {"model", std::move(model)},
          {"weights", std::move(weights)},
          {"places",
           {{"platform", "shelf4"},
            {"rows", {0.25, 0.25, 0.25, 0.25}},
            {"groups", nlohmann::json::array()},
            {"prompt_tokens", {10, 20}}}},
          {"bands", {{2, 3}}},
          {"knots", {0.0, 0.5, 0.9}},
          {"terms", {{{"bands", {0}}, {"levels", {2}}, {"loss", losses}}}},
          {"measured",
           {{"settings", 9},
            {"documents", 2},
            {"bytes", 100},
            {"dense_bits_per_byte", 0.5},
            {"text_sha256", "0"}}},
          {"held_out",
           {{"folds", 5}, {"seed", 1}, {"rms", 0.001}, {"worst", 0.002}, {"mean_rms", 0.01}}}};
}

}  // namespace tandem::test
