#pragma once

// Between the stored element types and f32.

#include <cstddef>
#include <span>

#include "model/transformer.hpp"

namespace tandem::exec {

// Every F16 and BF16 value is an f32 value: exact, subnormals, infinities and NaN included.
// stored.size() == out.size() * size_of(dtype), else logic_error. `stored` needs no alignment.
void to_f32(model::DType dtype, std::span<const std::byte> stored, std::span<float> out);

// Nearest value, ties to even; beyond the largest finite value infinity. Sizes as above.
void from_f32(model::DType dtype, std::span<const float> values, std::span<std::byte> stored);

}  // namespace tandem::exec
