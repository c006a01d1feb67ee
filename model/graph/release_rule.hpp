#pragma once

#include <cstdint>

namespace tandem::model {

// When the memory of a block of weights that streams from a disk is free again: after the block's
// compute, or after the all-reduce that follows it.
enum class ReleaseRule : std::uint8_t { early, late };

}  // namespace tandem::model
