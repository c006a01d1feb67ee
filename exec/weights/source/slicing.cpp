#include "exec/weights/source/slicing.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/weights/formats/block_codec.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

namespace {

using model::Range;

// The stored rows of whole heads in pairs that hold `rows` of the model.
Range whole_heads(Range rows, std::int64_t of_head) {
  const auto head = static_cast<std::int32_t>(of_head);
  return {rows.begin / head * head, (rows.end + head - 1) / head * head};
}

// Puts `rows` of heads in order: `stored` begins with row `first`, and all rows have `bytes` bytes.
void unpair(std::span<const std::byte> stored, std::int32_t first, std::int64_t of_head, Range rows,
            std::size_t bytes, std::span<std::byte> out) {
  const auto head = static_cast<std::int32_t>(of_head);
  const std::int32_t half = head / 2;
  for (std::int32_t row = rows.begin; row < rows.end; ++row) {
    const std::int32_t within = row % head;
    const std::int32_t from = row - within + within % half * 2 + within / half;
    std::copy_n(stored.begin() +
                    static_cast<std::ptrdiff_t>(from - first) * static_cast<std::ptrdiff_t>(bytes),
                bytes,
                out.begin() + static_cast<std::ptrdiff_t>(row - rows.begin) *
                                  static_cast<std::ptrdiff_t>(bytes));
  }
}

// Rows of `slice` as the file has them, as f32, packed, from `place`.
void read_stored_values(const WeightSource& weights, const StoredPlace& place,
                        const TensorSlice& slice, Range rows, std::span<float> out) {
  const auto width = static_cast<std::size_t>(slice.columns.size());
  if (place.paired_rows > 0) {
    const Range heads = whole_heads(rows, place.paired_rows);
    std::vector<float> stored(static_cast<std::size_t>(heads.size()) * width);
    weights.read(place.tensor, place.shape, heads, slice.columns, stored);
    return unpair(std::as_bytes(std::span(stored)), heads.begin, place.paired_rows, rows,
                  width * sizeof(float), std::as_writable_bytes(out));
  }
  if (!place.transposed) return weights.read(place.tensor, place.shape, rows, slice.columns, out);
  std::vector<float> stored(out.size());
  weights.read(place.tensor, place.shape, slice.columns, rows, stored);
  const auto height = static_cast<std::size_t>(rows.size());
  for (std::size_t row = 0; row < height; ++row) {
    for (std::size_t column = 0; column < width; ++column)
      out[row * width + column] = stored[column * height + row];
  }
}

// Rows of `slice` as f32, packed.
void read_values(const WeightSource& weights, const StoredPlace& place, const TensorSlice& slice,
                 Range rows, std::span<float> out) {
  read_stored_values(weights, place, slice, rows, out);
  if (!place.less_one) return;
  for (float& value : out) value += 1.0F;
}

// Reads the stored bytes of rows, if they have the slice's format.
bool read_same(const WeightSource& weights, const StoredPlace& place, const TensorSlice& slice,
               Range rows, std::span<std::byte> out) {
  const std::int64_t block = model::block_of(slice.format).elements;
  if (place.transposed || place.less_one || !weights.contains(place.tensor) ||
      weights.format_of(place.tensor) != slice.format || slice.columns.begin % block != 0 ||
      slice.columns.end % block != 0)
    return false;
  if (place.paired_rows == 0) {
    weights.read_stored(place.tensor, place.shape, rows, slice.columns, out);
    return true;
  }
  const Range heads = whole_heads(rows, place.paired_rows);
  const auto row_bytes = static_cast<std::size_t>(slice.row_bytes());
  std::vector<std::byte> stored(static_cast<std::size_t>(heads.size()) * row_bytes);
  weights.read_stored(place.tensor, place.shape, heads, slice.columns, stored);
  unpair(stored, heads.begin, place.paired_rows, rows, row_bytes, out);
  return true;
}

// Calls `body` with the slice's rows in order, in groups whose values take about 1 MiB (64 MiB if
// each read needs the whole tensor).
template <class Body>
void for_pieces(const TensorSlice& slice, const StoredPlace& place, const Body& body) {
  constexpr std::size_t kPieceFloats = std::size_t{1} << 18U;
  // Every piece of a transposed tensor reads all of the stored rows.
  constexpr std::size_t kTransposedPieceFloats = std::size_t{1} << 24U;
  const auto width = static_cast<std::size_t>(slice.columns.size());
  const std::size_t most = place.transposed ? kTransposedPieceFloats : kPieceFloats;
  auto rows_at_once =
      static_cast<std::int32_t>(std::max<std::size_t>(1, most / std::max<std::size_t>(width, 1)));
  if (place.paired_rows > 0)  // each reads whole heads
    rows_at_once = whole_heads({0, rows_at_once}, place.paired_rows).end;
  for (std::int32_t row = slice.rows.begin; row < slice.rows.end; row += rows_at_once)
    body(Range{row, std::min(row + rows_at_once, slice.rows.end)});
}

}  // namespace

void read_slice_rows(const WeightSource& weights, const TensorSlice& slice, std::int32_t layer,
                     Range rows, std::vector<float>& values, std::span<std::byte> out) {
  const StoredPlace place = weights.place_of(slice, layer);
  if (slice.format == model::WeightFormat::f32) {  // at once in its place
    return read_values(weights, place, slice, rows,
                       {reinterpret_cast<float*>(out.data()), out.size() / sizeof(float)});
  }
  values.resize(static_cast<std::size_t>(rows.size()) *
                static_cast<std::size_t>(slice.columns.size()));
  const bool same = read_same(weights, place, slice, rows, out);
  if (!same) {
    read_values(weights, place, slice, rows, values);
    encode(slice.format, values, out);
  }
  decode(slice.format, out, values);
  if (std::ranges::all_of(values, [](float x) { return std::isfinite(x); })) return;
  const std::string subject = weights.file_of(place.tensor).string() + ": " + place.tensor;
  if (same)
    throw Error(subject +
                ": holds NaN or infinity, expected finite numbers; the file is damaged, "
                "copy or download it again");
  throw Error(subject + ": holds numbers beyond what " +
              std::string(model::to_string(slice.format)) +
              " can say, expected smaller ones; use bf16 or f32");
}

void slice_block(const WeightSource& weights, const LayoutBlock& block, std::span<std::byte> out) {
  for (const TensorSlice& slice : block.slices)
    slice_tensor(weights, slice, block.layer, out.subspan(slice.offset, slice.bytes()));
}

void slice_tensor(const WeightSource& weights, const TensorSlice& slice, std::int32_t layer,
                  std::span<std::byte> out) {
  std::vector<float> values;
  std::uint64_t at = 0;
  for_pieces(slice, weights.place_of(slice, layer), [&](Range rows) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(rows.size()) * slice.row_bytes();
    read_slice_rows(weights, slice, layer, rows, values, out.subspan(at, bytes));
    at += bytes;
  });
}

void stream_block(const WeightSource& weights, const LayoutBlock& block,
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
    for_pieces(slice, weights.place_of(slice, block.layer), [&](Range rows) {
      piece.resize(static_cast<std::size_t>(rows.size()) * slice.row_bytes());
      read_slice_rows(weights, slice, block.layer, rows, values, piece);
      sink(piece);
    });
    at += slice.bytes();
  }
  pad_to((block.bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment);
}

}  // namespace tandem::exec
