#pragma once

// Types of messages and of the cache that are not given: narrow ones where the weights are narrow
// (docs/decisions/0092). None of them can make a run fail.

#include <string>
#include <vector>

#include "planner/search/request.hpp"

namespace tandem::planner {

// Returns whether every matrix has 16 bits a weight or fewer.
[[nodiscard]] bool has_narrow_weights(const model::Transformer& transformer);

// bf16, whose range is that of f32, where weights are narrow, else f32.
[[nodiscard]] model::WireFormat default_wire(const model::Transformer& transformer);
// f16 where weights are narrow, else f32. Keys and values beyond F16 are scaled where they are kept
// (exec/kernels/cached_row.hpp).
[[nodiscard]] model::CacheFormat default_cache(const model::Transformer& transformer);

// Returns `request` with the types that it leaves open (Request::open) by its weights. The cache is
// f32 if a profile has no rate for another. With a budget: the narrowest types of messages, then of
// the cache, that it allows.
[[nodiscard]] Request with_default_types(Request request);
// Returns a sentence that names such a profile for weights in any of `formats`, or, if there are
// none, as they are in the model. Empty: there is none.
[[nodiscard]] std::string default_cache_remark(Request request,
                                               const std::vector<model::WeightFormats>& formats);

}  // namespace tandem::planner
