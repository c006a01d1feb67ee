#pragma once

// Fields of `config.json` about experts, latent attention and quantised weights: what models have
// that can be planned, but not executed. Internal.

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "model/base/json_value.hpp"
#include "model/config/config_dialect.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// Returns whether models of `family` have experts.
[[nodiscard]] bool has_experts(Family family);
// Returns whether keys and values of `family` are latent: config.json has no head_dim for them.
[[nodiscard]] bool has_latent_attention(Family family);

// Reads the parts of latent attention and head_dim, which is their sum, into `transformer`.
void read_latent(const JsonValue& root, Transformer& transformer);
// Reads experts, and what else these families have, into `transformer`, whose sizes are set. Throws
// Error (field, value, expected) for missing or inconsistent fields.
void read_experts(const JsonValue& root, const Dialect& dialect, Transformer& transformer);
// Reads how the weights are quantised from `root` or, of multimodal models, `file`.
void read_quantisation(const JsonValue& root, const JsonValue& file, Transformer& transformer);

// Returns the fields that read_latent and read_experts read for this family.
[[nodiscard]] std::span<const std::string_view> expert_keys(Family family);

// Writes what these functions read.
void write_experts(const Transformer& transformer, nlohmann::ordered_json& json);

}  // namespace tandem::model
