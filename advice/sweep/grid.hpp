#pragma once

// The points of a sweep: every combination of the values of its fields.

#include <string>
#include <vector>

#include "advice/sweep/fields.hpp"

namespace tandem::study {

struct Axis {
  FieldUse field;
  std::vector<Value> values;  // all different
};

// Parses "FIELD=VALUES": values separated by commas, also lin(FIRST,LAST,COUNT) or
// log(FIRST,LAST,COUNT), evenly spaced (in ratio) with both ends. Throws Error (text, what was
// expected).
[[nodiscard]] Axis parse_axis(const std::string& text);

class Grid {
 public:
  // Throws Error for a duplicate field or more than 10^6 points.
  explicit Grid(std::vector<Axis> axes);

  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  // Returns the values of point `i`, one for each axis; the last axis changes fastest.
  [[nodiscard]] std::vector<Value> values(std::size_t i) const;
  // Returns `base` with these values.
  [[nodiscard]] Setup setup(const Setup& base, std::size_t i) const;

 private:
  std::vector<Axis> axes_;
  std::size_t size_ = 1;
};

}  // namespace tandem::study
