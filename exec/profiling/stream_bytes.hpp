#pragma once

#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// Bytes of weights that are read between two uses of the same, at the least, so that caches hold as
// little of them as in a run: `wanted`, if it is positive; else the layers of `transformer`, or of
// a large model four times the last-level cache, at most 512 MiB and an eighth of the memory that
// is available. More than 128 MiB is reported for caches that many virtual machines share, none of
// which has so much.
[[nodiscard]] double stream_bytes_of(const model::Transformer& transformer, double wanted);

}  // namespace tandem::exec
