#include "exec/weights/slicing.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/weights/block_codec.hpp"
#include "model/error.hpp"

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
void read_values(const SafetensorsFolder& weights, const std::string& tensor,
                 const TensorSlice& slice, model::Range rows, std::span<float> out) {
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

// The same in the slice's format. `values` is memory for what is read.
void read_rows(const SafetensorsFolder& weights, const TensorSlice& slice, model::Range rows,
               std::vector<float>& values, std::span<std::byte> out) {
  const std::string tensor = stored_name(weights, slice.tensor);
  if (slice.format == model::WeightFormat::f32) {  // at once in its place
    return read_values(weights, tensor, slice, rows,
                       {reinterpret_cast<float*>(out.data()), out.size() / sizeof(float)});
  }
  values.resize(static_cast<std::size_t>(rows.size()) *
                static_cast<std::size_t>(slice.columns.size()));
  read_values(weights, tensor, slice, rows, values);
  encode(slice.format, values, out);
  decode(slice.format, out, values);
  if (std::ranges::all_of(values, [](float x) { return std::isfinite(x); })) return;
  throw Error(weights.file_of(tensor).string() + ": " + tensor + ": holds numbers beyond what " +
              std::string(model::to_string(slice.format)) +
              " can say, expected smaller ones; use bf16 or f32");
}

// Calls `body` with the slice's rows in order, some at a time, so that their values take about
// 1 MiB (64 MiB where each time reads the whole tensor).
template <class Body>
void for_pieces(const TensorSlice& slice, const Body& body) {
  constexpr std::size_t kPieceFloats = std::size_t{1} << 18U;
  // Every piece of a transposed tensor reads all of the stored rows.
  constexpr std::size_t kTransposedPieceFloats = std::size_t{1} << 24U;
  const auto width = static_cast<std::size_t>(slice.columns.size());
  const std::size_t most = slice.transposed ? kTransposedPieceFloats : kPieceFloats;
  const auto rows_at_once =
      static_cast<std::int32_t>(std::max<std::size_t>(1, most / std::max<std::size_t>(width, 1)));
  for (std::int32_t row = slice.rows.begin; row < slice.rows.end; row += rows_at_once)
    body(model::Range{row, std::min(row + rows_at_once, slice.rows.end)});
}

}  // namespace

void slice_block(const SafetensorsFolder& weights, const LayoutBlock& block,
                 std::span<std::byte> out) {
  std::vector<float> values;
  for (const TensorSlice& slice : block.slices) {
    std::uint64_t at = slice.offset;
    for_pieces(slice, [&](model::Range rows) {
      const std::uint64_t bytes = static_cast<std::uint64_t>(rows.size()) * slice.row_bytes();
      read_rows(weights, slice, rows, values, out.subspan(at, bytes));
      at += bytes;
    });
  }
}

void stream_block(const SafetensorsFolder& weights, const LayoutBlock& block,
                  const std::function<void(std::span<const std::byte>)>& sink) {
  const std::array<std::byte, kBlockAlignment> zeros{};
  std::vector<float> values;
  std::vector<std::byte> piece;
  std::uint64_t at = 0;
  const auto pad_to = [&](std::uint64_t offset) {
    sink(std::span(zeros).first(offset - at));
    at = offset;
  };
  for (const TensorSlice& slice : block.slices) {
    pad_to(slice.offset);
    for_pieces(slice, [&](model::Range rows) {
      piece.resize(static_cast<std::size_t>(rows.size()) * slice.row_bytes());
      read_rows(weights, slice, rows, values, piece);
      sink(piece);
    });
    at += slice.bytes();
  }
  pad_to((block.bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment);
}

}  // namespace tandem::exec
