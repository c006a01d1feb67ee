#pragma once

#include <cstdint>

namespace tandem::model {

// When the memory of a streamed block of weights is released: after the block's compute, or after
// the all-reduce that follows it.
enum class ReleaseRule : std::uint8_t { early, late };

}  // namespace tandem::model
