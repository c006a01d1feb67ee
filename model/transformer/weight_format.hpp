#pragma once

// Formats of stored weights: the definition of each, and the matrices that have one.
//   - Every matrix of every layer, the embedding and the LM head (a tied head is the embedding) has
//     a format of its own.
//   - Norms, biases, learned positions and token types are f32, as are activations and the cache.
//   - A row of a block format is whole blocks, and so is every device's part of a row as stored:
//     heads whose part of `out` begins or ends within a block store the whole block
//     (Transformer::out_columns), and columns outside are multiplied by zeros.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::model {

// Block formats are ggml's (ggml-common.h, block_q8_0 and so on). Of 32 weights:
//   q8_0    an f16 scale and 32 signed bytes
//   q4_0    an f16 scale and 16 bytes, the first 16 weights in the low halves, the others in the
//           high ones, each less 8
//   q4_1    a scale, a least number and 16 bytes; q5_0, q5_1 as q4_0 and q4_1 with a fifth bit a
//           weight, 4 bytes; iq4_nl: as q4_0, but halves are indices of 16 uneven numbers
// Of 256, which share f16 scales of their parts' integer scales:
//   q2_k, q4_k, q5_k   16, 8 and 8 parts with scale and least number; 2, 4 and 5 bits a weight
//   q3_k, q6_k         16 parts with a scale; 3 and 6 bits a weight
//   iq4_xs             8 parts as of iq4_nl, with integer scales
// Formats that plans know the size of, and that nothing here reads or computes with:
//   fp8     E4M3, a byte a weight (scales of blocks of 128 by 128 are ignored: 0.02%)
//   mxfp4   of 32 weights: 16 bytes of E2M1 and a scale of a byte   OCP Microscaling 1.0, 2023
//   nvfp4   of 16 weights: 8 bytes of E2M1 and a scale of a byte    NVIDIA
enum class WeightFormat : std::uint8_t {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  fp8,
  mxfp4,
  nvfp4
};

struct FormatBlock {
  std::int64_t elements = 1;
  std::int64_t bytes = 4;
};

// The properties of a format in addition to its codec (exec/weights/formats/) and its kernels.
struct FormatRow {
  WeightFormat format;
  std::string_view name;  // in flags and files
  FormatBlock block;
  std::uint32_t file_type;   // llama.cpp's general.file_type
  std::size_t scales_begin;  // byte of a block at which its f16 scales begin
  std::size_t scales;        // f16 scales of a block; 0: plain numbers
  // Products quantise inputs to 8 bits and sum integers: part of the format's definition, on every
  // machine (exec/kernels/integer_product.hpp). Other products read f32.
  bool integers;
  bool written;          // conversions write the format; others are only read
  bool executed = true;  // weights can be read and computed with; others are only planned
};

// In the order of the enumerators.
inline constexpr std::array kFormats{
    FormatRow{WeightFormat::f32, "f32", {1, 4}, 0, 0, 0, false, true},
    FormatRow{WeightFormat::f16, "f16", {1, 2}, 1, 0, 0, false, true},
    FormatRow{WeightFormat::bf16, "bf16", {1, 2}, 32, 0, 0, false, true},
    FormatRow{WeightFormat::q8_0, "q8_0", {32, 34}, 7, 0, 1, true, true},
    FormatRow{WeightFormat::q4_0, "q4_0", {32, 18}, 2, 0, 1, true, true},
    FormatRow{WeightFormat::q4_1, "q4_1", {32, 20}, 3, 0, 2, false, false},
    FormatRow{WeightFormat::q5_0, "q5_0", {32, 22}, 8, 0, 1, false, true},
    FormatRow{WeightFormat::q5_1, "q5_1", {32, 24}, 9, 0, 2, false, true},
    FormatRow{WeightFormat::q2_k, "q2_k", {256, 84}, 10, 80, 2, false, false},
    FormatRow{WeightFormat::q3_k, "q3_k", {256, 110}, 11, 108, 1, false, false},
    FormatRow{WeightFormat::q4_k, "q4_k", {256, 144}, 14, 0, 2, true, true},
    FormatRow{WeightFormat::q5_k, "q5_k", {256, 176}, 16, 0, 2, true, true},
    FormatRow{WeightFormat::q6_k, "q6_k", {256, 210}, 18, 208, 1, true, true},
    FormatRow{WeightFormat::iq4_nl, "iq4_nl", {32, 18}, 25, 0, 1, false, false},
    FormatRow{WeightFormat::iq4_xs, "iq4_xs", {256, 136}, 30, 0, 1, false, false},
    FormatRow{WeightFormat::fp8, "fp8", {1, 1}, 0, 0, 0, false, false, false},
    FormatRow{WeightFormat::mxfp4, "mxfp4", {32, 17}, 38, 0, 0, false, false, false},
    FormatRow{WeightFormat::nvfp4, "nvfp4", {16, 9}, 0, 0, 0, false, false, false}};

// Every format; those that can be executed come first.
inline constexpr auto kAllFormats = [] {
  std::array<WeightFormat, kFormats.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all.at(i) = kFormats.at(i).format;
  return all;
}();
// The formats that can be executed.
inline constexpr auto kWeightFormats = [] {
  constexpr std::size_t kExecuted = [] {
    std::size_t count = 0;
    for (const FormatRow& row : kFormats) count += row.executed ? 1 : 0;
    return count;
  }();
  std::array<WeightFormat, kExecuted> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all.at(i) = kFormats.at(i).format;
  return all;
}();
static_assert(
    [] {
      for (std::size_t i = 0; i < kFormats.size(); ++i) {
        if (static_cast<std::size_t>(kFormats.at(i).format) != i) return false;
      }
      return true;
    }(),
    "rows are in the order of the enumerators");

// Throws out_of_range for a number that is no format.
[[nodiscard]] constexpr const FormatRow& row_of(WeightFormat format) {
  return kFormats.at(static_cast<std::size_t>(format));
}
[[nodiscard]] constexpr FormatBlock block_of(WeightFormat format) { return row_of(format).block; }

// Returns the bytes of `columns` consecutive weights; a partial block counts as a whole one.
[[nodiscard]] constexpr std::int64_t row_bytes(WeightFormat format, std::int64_t columns) {
  const FormatBlock block = block_of(format);
  return (columns + block.elements - 1) / block.elements * block.bytes;
}

[[nodiscard]] constexpr bool multiplies_integers(WeightFormat format) {
  return row_of(format).integers;
}
[[nodiscard]] constexpr bool is_for_writing(WeightFormat format) { return row_of(format).written; }
[[nodiscard]] constexpr std::string_view to_string(WeightFormat format) {
  return row_of(format).name;
}
[[nodiscard]] constexpr bool is_executed(WeightFormat format) { return row_of(format).executed; }
// Returns nothing if `name` is none that can be executed; of all formats, if it is none at all.
[[nodiscard]] std::optional<WeightFormat> find_weight_format(std::string_view name);
[[nodiscard]] std::optional<WeightFormat> find_any_format(std::string_view name);

enum class WeightMatrix : std::uint8_t { query, key, value, out, gate, up, down, embedding, head };

inline constexpr std::array kWeightMatrices{
    WeightMatrix::query, WeightMatrix::key,       WeightMatrix::value,
    WeightMatrix::out,   WeightMatrix::gate,      WeightMatrix::up,
    WeightMatrix::down,  WeightMatrix::embedding, WeightMatrix::head};

[[nodiscard]] std::string_view to_string(WeightMatrix matrix);
[[nodiscard]] constexpr bool is_of_layer(WeightMatrix matrix) {
  return matrix != WeightMatrix::embedding && matrix != WeightMatrix::head;
}

// Matrices with a common input, and their name in texts if they have one format.
struct MatrixGroup {
  std::string_view name;
  std::vector<WeightMatrix> matrices;
};
// "query_key_value", "out", "gate_up", "down", "embedding", "head".
[[nodiscard]] const std::vector<MatrixGroup>& matrix_groups();

// The formats of a model's matrices: one for a matrix in all layers, and exceptions for single
// layers. f32 by default.
class WeightFormats {
 public:
  using Place = std::pair<std::int32_t, WeightMatrix>;  // layer and matrix

  WeightFormats() = default;
  // One format for all.
  explicit WeightFormats(WeightFormat format) { formats_.fill(format); }
  // Returns the format in layers that are not among exceptions(), and in the ends.
  [[nodiscard]] WeightFormat of(WeightMatrix matrix) const {
    return formats_[static_cast<std::size_t>(matrix)];
  }
  // Returns the format in `layer`; the ends are in no layer, whatever it is.
  [[nodiscard]] WeightFormat of(WeightMatrix matrix, std::int32_t layer) const {
    if (!exceptions_.empty()) {
      const auto found = exceptions_.find({layer, matrix});
      if (found != exceptions_.end()) return found->second;
    }
    return of(matrix);
  }
  // Sets the format in all layers.
  void set(WeightMatrix matrix, WeightFormat format);
  // Sets the format in one layer. Throws logic_error for a matrix that is in none.
  void set(WeightMatrix matrix, std::int32_t layer, WeightFormat format);
  // Returns the exceptions from of(matrix).
  [[nodiscard]] const std::map<Place, WeightFormat>& exceptions() const { return exceptions_; }
  [[nodiscard]] bool has(WeightFormat format) const;
  // Returns "q8_0", or for a mixture "query_key_value q8_0, ...": exceptions are listed, layers
  // last ("layer 3's value q8_0").
  [[nodiscard]] std::string text() const;
  bool operator==(const WeightFormats&) const = default;

 private:
  std::array<WeightFormat, kWeightMatrices.size()> formats_{};
  std::map<Place, WeightFormat> exceptions_{};
};

}  // namespace tandem::model
