#pragma once

// Family-specific fields of `config.json` in addition to sizes and rotation: layers with a window,
// layers without positions, scales and caps. Internal.

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "model/base/json_value.hpp"
#include "model/config/config_dialect.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// Reads them into `transformer`, whose sizes are set; absent fields have the defaults of Hugging
// Face's classes.
void read_traits(const JsonValue& root, const Dialect& dialect, Transformer& transformer);

// Returns the fields that read_traits reads for this family.
[[nodiscard]] std::span<const std::string_view> trait_keys(Family family);

// Writes what read_traits reads.
void write_traits(const Transformer& transformer, nlohmann::ordered_json& json);

}  // namespace tandem::model
