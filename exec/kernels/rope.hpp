#pragma once

#include <cstdint>
#include <vector>

#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// The layers of a rotation: windowed layers may have a base of their own, without scaling.
enum class RopeLayers : std::uint8_t { all, windowed };

// Returns the angle by which position 1 rotates pair `pair` of a head, including scaling; for
// longrope by the long factors if `long_context`.
[[nodiscard]] double rope_frequency(const model::Transformer& transformer, std::int64_t pair,
                                    RopeLayers layers = RopeLayers::all, bool long_context = false);

// Cosines and sines of rotary position embedding for the rows of the current step.
//   angle(position, i) = position * f_i, f_i = theta^(-2 i / d), i < d / 2
//   d    dimensions of a head that are rotated
// Su et al. 2021; f_i, and the size of cosines and sines, as model::RopeScaling says.
class RopeTable {
 public:
  // `table` has room for max_rows * transformer.rotated() floats and outlives this.
  RopeTable(const model::Transformer& transformer, RopeLayers layers, std::int32_t max_rows,
            float* table);

  // Sets `row` to the angles of `position`, for longrope by the long factors if `long_context`;
  // free if it already has them.
  void set(std::int32_t row, std::int32_t position, bool long_context = false);
  [[nodiscard]] const float* cosine(std::int32_t row) const { return at(row); }
  [[nodiscard]] const float* sine(std::int32_t row) const { return at(row) + half(); }
  [[nodiscard]] std::int64_t half() const { return static_cast<std::int64_t>(frequency_.size()); }
  [[nodiscard]] const std::vector<double>& frequencies() const { return frequency_; }

 private:
  [[nodiscard]] const float* at(std::int32_t row) const { return table_ + 2 * half() * row; }

  struct Angles {
    std::int32_t position = -1;  // -1: none yet
    bool long_context = false;
    bool operator==(const Angles&) const = default;
  };

  std::vector<double> frequency_;       // [d / 2], radians a position
  std::vector<double> long_frequency_;  // by the long factors
  double size_ = 1.0;                   // factor of cosines and sines
  float* table_;                        // [max_rows, 2, d / 2]
  std::vector<Angles> angles_;          // [max_rows]
};

}  // namespace tandem::exec
