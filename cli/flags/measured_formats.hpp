#pragma once

// `--dtype` and `--cache-type` of commands that measure rates, which are of several formats.

#include <vector>

#include "cli/flags/options.hpp"
#include "model/transformer/transformer.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::cli {

// Whether rows of the model are whole blocks of `format`.
[[nodiscard]] bool fits(model::Transformer transformer, model::WeightFormat format);

// What `--dtype` names, besides f32, in the order of the formats named; all: those that the model
// can be in. Throws Usage for another name, f32, and a format that is named twice.
[[nodiscard]] std::vector<model::WeightFormat> measured_formats(
    const Options& options, const model::Transformer& transformer);

// Whether attention over a cache in f16 is measured, too: as `--cache-type` says, else with weights
// that are not f32, whose plans have such a cache by default. Throws Usage for another type.
[[nodiscard]] bool measures_half_cache(const Options& options, bool narrow_weights);

}  // namespace tandem::cli
