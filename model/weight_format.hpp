#pragma once

// Formats of stored weights. This is the one place that says what a format is, and which matrices
// have one:
//   - every matrix of every layer, the embedding and the LM head (a tied head is the embedding) has
//   a
//     format of its own;
//   - norms, biases, learned positions and token types are f32, as are activations and the cache;
//   - a row of a block format is whole blocks, and so is every device's part of a row.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::model {

// q8_0: blocks of 32 weights, an f16 scale and 32 signed bytes; q4_0: blocks of 32, an f16 scale
// and 16 bytes, the first 16 weights in the low halves, the others in the high ones, each less 8;
// both as ggml has them (ggml-common.h, block_q8_0 and block_q4_0).
enum class WeightFormat : std::uint8_t { f32, f16, bf16, q8_0, q4_0 };

inline constexpr std::array kWeightFormats{WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16,
                                           WeightFormat::q8_0, WeightFormat::q4_0};

struct FormatBlock {
  std::int64_t elements = 1;
  std::int64_t bytes = 4;
};

[[nodiscard]] constexpr FormatBlock block_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::f32:
      break;
    case WeightFormat::f16:
    case WeightFormat::bf16:
      return {1, 2};
    case WeightFormat::q8_0:
      return {32, 34};
    case WeightFormat::q4_0:
      return {32, 18};
  }
  return {1, 4};
}

// The bytes of `columns` weights that follow each other; a block that is begun counts whole.
[[nodiscard]] constexpr std::int64_t row_bytes(WeightFormat format, std::int64_t columns) {
  const FormatBlock block = block_of(format);
  return (columns + block.elements - 1) / block.elements * block.bytes;
}

// Whether products read inputs in 8 bits, and sum integers: part of what a product with such
// weights is, on every machine (exec/kernels/integer_product.hpp). Others read f32.
[[nodiscard]] constexpr bool multiplies_integers(WeightFormat format) {
  return format == WeightFormat::q8_0 || format == WeightFormat::q4_0;
}

// "f32", "f16", "bf16", "q8_0", "q4_0": names of flags and files.
[[nodiscard]] std::string_view to_string(WeightFormat format);
// Nothing if `name` is none of them.
[[nodiscard]] std::optional<WeightFormat> find_weight_format(std::string_view name);

enum class WeightMatrix : std::uint8_t { query, key, value, out, gate, up, down, embedding, head };

inline constexpr std::array kWeightMatrices{
    WeightMatrix::query, WeightMatrix::key,       WeightMatrix::value,
    WeightMatrix::out,   WeightMatrix::gate,      WeightMatrix::up,
    WeightMatrix::down,  WeightMatrix::embedding, WeightMatrix::head};

[[nodiscard]] std::string_view to_string(WeightMatrix matrix);
[[nodiscard]] constexpr bool is_of_layer(WeightMatrix matrix) {
  return matrix != WeightMatrix::embedding && matrix != WeightMatrix::head;
}

// Matrices that one product's input is multiplied with, and their name where they have one format.
struct MatrixGroup {
  std::string_view name;
  std::vector<WeightMatrix> matrices;
};
// "query_key_value", "out", "gate_up", "down", "embedding", "head".
[[nodiscard]] const std::vector<MatrixGroup>& matrix_groups();

// The formats of a model's matrices: one for a matrix in all layers, and those of single layers
// that differ. Value; f32 unless said.
class WeightFormats {
 public:
  using Place = std::pair<std::int32_t, WeightMatrix>;  // layer and matrix

  WeightFormats() = default;
  // One for all.
  explicit WeightFormats(WeightFormat format) { formats_.fill(format); }
  // Of layers that are not among exceptions(), and of the ends.
  [[nodiscard]] WeightFormat of(WeightMatrix matrix) const {
    return formats_[static_cast<std::size_t>(matrix)];
  }
  // In `layer`; the ends are in none, whatever it is.
  [[nodiscard]] WeightFormat of(WeightMatrix matrix, std::int32_t layer) const {
    if (!exceptions_.empty()) {
      const auto found = exceptions_.find({layer, matrix});
      if (found != exceptions_.end()) return found->second;
    }
    return of(matrix);
  }
  // In all layers.
  void set(WeightMatrix matrix, WeightFormat format);
  // In one. Throws logic_error of a matrix that is in none.
  void set(WeightMatrix matrix, std::int32_t layer, WeightFormat format);
  // What differs from of(matrix).
  [[nodiscard]] const std::map<Place, WeightFormat>& exceptions() const { return exceptions_; }
  [[nodiscard]] bool has(WeightFormat format) const;
  // "q8_0", or of a mixture "query_key_value q8_0, ...": what differs is named, layers in the end
  // ("layer 3's value q8_0").
  [[nodiscard]] std::string text() const;
  bool operator==(const WeightFormats&) const = default;

 private:
  std::array<WeightFormat, kWeightMatrices.size()> formats_{};
  std::map<Place, WeightFormat> exceptions_{};
};

}  // namespace tandem::model
