#pragma once

// A measured loss that nobody measured.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/transformer/transformer.hpp"

namespace tandem::test {

// Of a model of seven layers, in bands of two, on four places in two groups: a band costs what it
// drops, the second less than the first, the farther level less than the nearer, and the last half
// more than the first; of the farther level of the second band, the first half costs nothing.
inline nlohmann::json loss_json(const model::Transformer& model) {
  using Json = nlohmann::json;
  Json json{
      {"schema", "tandem.sparse_loss/1"},
      {"unit", "bits per byte more than with nothing dropped"},
      {"model", {{"name", "small"}, {"config", Json::parse(model::to_config_json(model))}}},
      {"weights",
       {{{"file", "model.safetensors"}, {"bytes", 5}, {"tail_sha256", std::string(64, 'a')}}}},
      {"places",
       {{"platform", "rooms"},
        {"rows", {0.25, 0.25, 0.25, 0.25}},
        {"groups", {{0, 0, 1, 1}}},
        {"prompt_tokens", {300, 500}}}},
      {"bands", {{2, 4}, {4, 6}}},
      {"knots", {0.0, 0.45, 0.9}},
      {"terms", Json::array()},
      {"measured",
       {{"settings", 20},
        {"documents", 2},
        {"bytes", 1000},
        {"dense_bits_per_byte", 0.5},
        {"text_sha256", "0"}}},
      {"held_out",
       {{"folds", 5}, {"seed", 1}, {"rms", 0.001}, {"worst", 0.002}, {"mean_rms", 0.01}}}};
  const auto term = [&](std::vector<int> bands, std::vector<int> levels, std::vector<double> loss) {
    json["terms"].push_back(
        {{"bands", std::move(bands)}, {"levels", std::move(levels)}, {"loss", std::move(loss)}});
  };
  term({0}, {2}, {0.0, 0.04, 0.16});
  term({0}, {3}, {0.0, 0.02, 0.08});
  term({1}, {2}, {0.0, 0.01, 0.05});
  term({1}, {3}, {0.0, 0.0, 0.04});
  term({0, 1}, {2, 3}, {0.0, 0.0, 0.09});
  return json;
}

}  // namespace tandem::test
