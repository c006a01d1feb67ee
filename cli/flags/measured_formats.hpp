#pragma once

// `--dtype` and `--cache-type` of commands that measure rates, which are of several formats.

#include <vector>

#include "cli/flags/options.hpp"
#include "model/transformer/cache_format.hpp"
#include "model/transformer/transformer.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::cli {

// Whether rows of the model are whole blocks of `format`.
[[nodiscard]] bool fits(model::Transformer transformer, model::WeightFormat format);

// What `--dtype` names, besides f32, in the order of the formats named; all: those that the model
// can be in. Throws Usage for another name, f32, and a format that is named twice.
[[nodiscard]] std::vector<model::WeightFormat> measured_formats(
    const Options& options, const model::Transformer& transformer);

// What `--cache-type` names, and with weights that are not f32 the type that their plans have by
// default, in the order of the types. Throws Usage for another name, f32, and a type that is named
// twice, Error for one that the model's heads are no whole blocks of.
[[nodiscard]] std::vector<model::CacheFormat> measured_caches(const Options& options,
                                                              model::Transformer transformer,
                                                              bool narrow_weights);

}  // namespace tandem::cli
