#include "exec/weights/slicing.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::exec {

std::string stored_name(const SafetensorsFolder& weights, const std::string& tensor) {
  if (weights.contains(tensor)) return tensor;
  for (const std::string& other : other_names(tensor)) {
    if (weights.contains(other)) return other;
  }
  return tensor;  // reading it says what is missing
}

namespace {

// Rows of `slice` as f32, packed, from whatever the folder calls its tensor.
void read_rows(const SafetensorsFolder& weights, const TensorSlice& slice, model::Range rows,
               std::span<float> out) {
  const std::string tensor = stored_name(weights, slice.tensor);
  if (!slice.transposed) return weights.read(tensor, slice.shape, rows, slice.columns, out);
  std::vector<float> stored(out.size());
  weights.read(tensor, slice.shape, slice.columns, rows, stored);
  const auto height = static_cast<std::size_t>(rows.size());
  const auto width = static_cast<std::size_t>(slice.columns.size());
  for (std::size_t row = 0; row < height; ++row) {
    for (std::size_t column = 0; column < width; ++column)
      out[row * width + column] = stored[column * height + row];
  }
}

}  // namespace

void slice_block(const SafetensorsFolder& weights, const LayoutBlock& block, std::span<float> out) {
  for (const TensorSlice& slice : block.slices)
    read_rows(weights, slice, slice.rows,
              out.subspan(slice.offset / sizeof(float), slice.elements()));
}

void stream_block(const SafetensorsFolder& weights, const LayoutBlock& block,
                  const std::function<void(std::span<const std::byte>)>& sink) {
  constexpr std::size_t kPieceFloats = std::size_t{1} << 18U;
  // Every piece of a transposed tensor reads all of the stored rows.
  constexpr std::size_t kTransposedPieceFloats = std::size_t{1} << 24U;
  const std::array<std::byte, kBlockAlignment> zeros{};
  std::vector<float> piece;
  std::uint64_t at = 0;
  const auto pad_to = [&](std::uint64_t offset) {
    sink(std::span(zeros).first(offset - at));
    at = offset;
  };
  for (const TensorSlice& slice : block.slices) {
    pad_to(slice.offset);
    const auto width = static_cast<std::size_t>(slice.columns.size());
    const std::size_t most = slice.transposed ? kTransposedPieceFloats : kPieceFloats;
    const auto rows_at_once =
        static_cast<std::int32_t>(std::max<std::size_t>(1, most / std::max<std::size_t>(width, 1)));
    for (std::int32_t row = slice.rows.begin; row < slice.rows.end; row += rows_at_once) {
      const model::Range rows{row, std::min(row + rows_at_once, slice.rows.end)};
      piece.resize(static_cast<std::size_t>(rows.size()) * width);
      read_rows(weights, slice, rows, piece);
      sink(std::as_bytes(std::span(piece)));
    }
    at += slice.elements() * sizeof(float);
  }
  pad_to((block.bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment);
}

}  // namespace tandem::exec
