// Rows of a cache in Q8_0: rounded as those of a message in Q8_0 are.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "exec/kernels/cache_kernels.hpp"
#include "exec/kernels/wire_row.hpp"

namespace tandem::exec {
namespace {

constexpr auto kFormat = model::CacheFormat::q8_0;
constexpr auto kWire = model::WireFormat::q8_0;
constexpr std::int64_t kBlock = model::block_of(kFormat).elements;
constexpr std::int64_t kBlockBytes = model::block_of(kFormat).bytes;
constexpr std::int64_t kScaleBytes = model::kWireScaleBytes;
static_assert(kBlock == model::wire_block(kWire));
static_assert(kBlockBytes == model::wire_row_bytes(kWire, kBlock));

using RowBytes = std::array<std::byte, model::cache_bytes(kFormat, kMaxHeadDim)>;

std::size_t row_bytes(std::int64_t head_dim) {
  return static_cast<std::size_t>(model::cache_bytes(kFormat, head_dim));
}

bool encode(const float* row, std::int64_t head_dim, std::byte* blocks) {
  std::array<float, kMaxHeadDim> rounded;
  std::copy_n(row, head_dim, rounded.begin());
  return encode_row(kWire, {rounded.data(), static_cast<std::size_t>(head_dim)},
                    {blocks, row_bytes(head_dim)});
}

void decode(const std::byte* blocks, std::int64_t head_dim, float* row) {
  decode_row(kWire, {blocks, row_bytes(head_dim)}, {row, static_cast<std::size_t>(head_dim)});
}

// Calls visit(in_row, in_panel, bytes) of each piece of a key that lies together: bytes and scales.
// `lane`: its position in the panel.
template <class Visit>
void for_pieces(std::int64_t head_dim, std::int64_t lane, const Visit& visit) {
  for (std::int64_t i = 0; i < head_dim; ++i)
    visit(i / kBlock * kBlockBytes + kScaleBytes + i % kBlock, i * kPanel + lane, 1);
  for (std::int64_t block = 0; block < head_dim / kBlock; ++block)
    visit(block * kBlockBytes, kPanel * head_dim + (block * kPanel + lane) * kScaleBytes,
          kScaleBytes);
}

}  // namespace

bool store_key_q8_0(const float* row, std::int64_t position, const CachedHead& cache,
                    std::int64_t head_dim) {
  RowBytes blocks;
  const bool finite = encode(row, head_dim, blocks.data());
  std::byte* const panel = cache.panel<std::byte>(position, head_dim);
  for_pieces(head_dim, position % kPanel,
             [&](std::int64_t in_row, std::int64_t in_panel, std::int64_t bytes) {
               std::copy_n(blocks.data() + in_row, bytes, panel + in_panel);
             });
  return finite;
}

bool store_value_q8_0(const float* row, std::int64_t position, const CachedHead& cache,
                      std::int64_t head_dim) {
  return encode(row, head_dim, cache.value<std::byte>(position, head_dim));
}

void load_key_q8_0(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                   float* row) {
  RowBytes blocks;
  const std::byte* const panel = cache.panel<const std::byte>(position, head_dim);
  for_pieces(head_dim, position % kPanel,
             [&](std::int64_t in_row, std::int64_t in_panel, std::int64_t bytes) {
               std::copy_n(panel + in_panel, bytes, blocks.data() + in_row);
             });
  decode(blocks.data(), head_dim, row);
}

void load_value_q8_0(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                     float* row) {
  decode(cache.value<const std::byte>(position, head_dim), head_dim, row);
}

}  // namespace tandem::exec
