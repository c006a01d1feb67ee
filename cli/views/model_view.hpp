#pragma once

// What plans and `tandem model inspect` say about experts, latent attention and quantised weights.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "model/transformer/transformer.hpp"

namespace tandem::cli {

// "12.88e9", or "304.00e6" below a billion.
[[nodiscard]] std::string billions(std::int64_t parameters);

// One line each, ending with a line break; empty for a dense model without them: the parameters in
// all and those that a token uses, the experts that a step of `rows` rows uses with what is assumed
// about them, latent attention's cache, and that such a model is not executed.
[[nodiscard]] std::string model_remarks(const model::Transformer& transformer, std::int64_t rows);

// The same as JSON: "active_parameters", "experts" (null: none), "latent_attention" (null: none).
void add_experts(const model::Transformer& transformer, std::int64_t rows,
                 nlohmann::ordered_json& json);

}  // namespace tandem::cli
