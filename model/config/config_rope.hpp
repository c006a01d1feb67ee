#pragma once

// What `config.json` says of rotary positions. Not installed.

#include <nlohmann/json.hpp>

#include "model/base/json_value.hpp"
#include "model/config/config_dialect.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// Reads base, scaling and how much of a head is rotated into `transformer`, whose sizes are read.
void read_rope(const JsonValue& root, const Dialect& dialect, Transformer& transformer);

// Writes what read_rope reads back.
void write_rope(const Transformer& transformer, nlohmann::ordered_json& json);

}  // namespace tandem::model
