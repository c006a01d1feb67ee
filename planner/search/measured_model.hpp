#pragma once

// The model that a loss was measured of: its geometry and its weights.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/json_value.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::planner {

// A weights file used in the measurement.
struct WeightsFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string tail_sha256;  // of its last kTailBytes, or of the whole file if it is smaller
  bool operator==(const WeightsFile&) const = default;
};
inline constexpr std::int64_t kTailBytes = std::int64_t{1} << 20U;

// Reads `model` ({"name", "config"}) of a measured loss. Throws Error as parse_config_json does.
[[nodiscard]] model::Transformer read_measured_model(const model::JsonValue& model,
                                                     const std::string& source);
// Reads `weights`, at least one file. Throws Error naming the field and what was expected.
[[nodiscard]] std::vector<WeightsFile> read_measured_weights(const model::JsonValue& weights);

// Throws Error unless `measured`, of the file `source`, has the geometry of `transformer`.
void check_measured_model(const model::Transformer& measured, const model::Transformer& transformer,
                          const std::string& source, std::string_view remedy);

}  // namespace tandem::planner
