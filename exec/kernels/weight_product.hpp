#pragma once

// Products with weight matrices in any format, [out, in] row-major. Single-threaded: the caller
// splits the outputs among threads. Of f32 weights they are those of exec/kernels/product.hpp.

#include <cstddef>
#include <cstdint>

#include "exec/kernels/weight_operands.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

// Up to kFewRows tokens read weights in place; block formats that do not multiply integers unpack
// tiles of rows that fit a cache. With more tokens, for formats that do not multiply integers, the
// sum of each output and token is over k in order, by pieces of the depth whose sums are added in
// order. The result of one output does not depend on the other outputs of the call, so it is the
// same however outputs are split. Reads nothing beyond the last block.
void product(const WeightProduct& p);

// Parts of it: of weights of 16 bits up to kFewRows tokens, and of f32 one,
void stored_product(const WeightProduct& p);
// more than kFewRows of formats that do not multiply integers,
void many_row_product(const WeightProduct& p);
// and of all but f32 and those that do `count` weights of a row as f32.
void unpack(model::WeightFormat format, const std::byte* row, std::int64_t count, float* out);
// which is this of block formats.
void unpack_blocks(model::WeightFormat format, const std::byte* row, std::int64_t count,
                   float* out);

}  // namespace tandem::exec
