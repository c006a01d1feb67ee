#pragma once

#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// Bytes of weights that are read between two uses of the same, at the least, so that caches hold as
// little of them as in a run: `wanted`, if it is positive; else the layers of `transformer`, or of
// a large model four times the last-level cache that the kernel reports, at most 512 MiB and an
// eighth of the memory that is available. The bounds keep time and memory small; where a cache of
// more than 128 MiB is all this machine's, some of the weights stay in it.
[[nodiscard]] double stream_bytes_of(const model::Transformer& transformer, double wanted);

}  // namespace tandem::exec
