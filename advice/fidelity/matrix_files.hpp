#pragma once

// What a configuration of `tandem fidelity` is planned from.

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "advice/fidelity/matrix.hpp"

namespace tandem::study {

// Tokens that every configuration generates.
inline constexpr int kFidelityNewTokens = 8;

// The config.json of a small model of `family`: 8 layers, 16 heads of 32 with 8 of keys and values
// (gpt2: 16), 1536 FFN columns (gpt2: 2048), a vocabulary of 2048. Throws logic_error for a family
// that is no level.
[[nodiscard]] std::string fidelity_model_config(std::string_view family);

// The configuration's platform file: devices on a switch or a medium, even ones 4 times slower than
// this machine, uneven ones 2 to 8 times; one device is this machine. Where the sum of 1 / slowdown
// is above `most_demand`, all slowdowns are multiplied by the least whole number that mends it.
[[nodiscard]] std::string fidelity_platform_xml(
    const Configuration& configuration,
    double most_demand = std::numeric_limits<double>::infinity());

// Flags of `tandem plan` beside --platform, --model, --profile and --out.
[[nodiscard]] std::vector<std::string> fidelity_plan_flags(const Configuration& configuration);

}  // namespace tandem::study
