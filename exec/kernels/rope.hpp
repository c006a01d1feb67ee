#pragma once

#include <cstdint>
#include <vector>

#include "model/transformer.hpp"

namespace tandem::exec {

// The angle by which position 1 turns pair `pair` of a head, scaling included.
[[nodiscard]] double rope_frequency(const model::Transformer& transformer, std::int64_t pair);

// Cosines and sines of rotary position embedding for the rows of the current step.
//   angle(position, i) = position * f_i, f_i = theta^(-2 i / head_dim), i < head_dim / 2
// Su et al. 2021; f_i scaled as model::RopeScaling says.
class RopeTable {
 public:
  // `table` has room for max_rows * head_dim floats and outlives this.
  RopeTable(const model::Transformer& transformer, std::int32_t max_rows, float* table);

  // Makes `row` the angles of `position`; free if it has them.
  void set(std::int32_t row, std::int32_t position);
  [[nodiscard]] const float* cosine(std::int32_t row) const { return at(row); }
  [[nodiscard]] const float* sine(std::int32_t row) const { return at(row) + half(); }
  [[nodiscard]] std::int64_t half() const { return static_cast<std::int64_t>(frequency_.size()); }
  [[nodiscard]] const std::vector<double>& frequencies() const { return frequency_; }

 private:
  [[nodiscard]] const float* at(std::int32_t row) const { return table_ + 2 * half() * row; }

  std::vector<double> frequency_;       // [head_dim / 2], radians a position
  float* table_;                        // [max_rows, 2, head_dim / 2]
  std::vector<std::int32_t> position_;  // [max_rows], -1: none yet
};

}  // namespace tandem::exec
