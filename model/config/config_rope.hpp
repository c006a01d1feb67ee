#pragma once

// The rotary positions in `config.json`. Internal.

#include <nlohmann/json.hpp>

#include "model/base/json_value.hpp"
#include "model/config/config_dialect.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// Reads base, scaling and the rotated part of a head into `transformer`, whose sizes are set.
void read_rope(const JsonValue& root, const Dialect& dialect, Transformer& transformer);

// Writes what read_rope reads.
void write_rope(const Transformer& transformer, nlohmann::ordered_json& json);

}  // namespace tandem::model
