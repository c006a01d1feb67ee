#pragma once

// All known fields of a `config.json` and their treatment. Internal.

#include <span>
#include <string_view>

#include "model/base/json_value.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// Throws Error unless each field of `root` is
//   - one of `read`, which the caller reads; or
//   - a setting with a supported value (biases, activations, order of norms, partial rotation); or
//   - known to change neither work, memory nor result (training, naming, sampling defaults).
// An unknown field is rejected by name, as it may change what the model computes. null counts as
// absent everywhere.
void check_config_keys(const JsonValue& root, Family family,
                       std::span<const std::string_view> read);

}  // namespace tandem::model
