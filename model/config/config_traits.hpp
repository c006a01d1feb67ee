#pragma once

// What families' `config.json` say beside sizes and rotation: which layers attend within a window,
// which have no positions, scales and caps. Not installed.

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "model/base/json_value.hpp"
#include "model/config/config_dialect.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// Reads them into `transformer`, whose sizes are read; absent fields have the defaults of Hugging
// Face's classes.
void read_traits(const JsonValue& root, const Dialect& dialect, Transformer& transformer);

// The fields that read_traits reads of this family.
[[nodiscard]] std::span<const std::string_view> trait_keys(Family family);

// Writes what read_traits reads back.
void write_traits(const Transformer& transformer, nlohmann::ordered_json& json);

}  // namespace tandem::model
