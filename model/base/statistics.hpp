#pragma once

// Means and quantiles of measured or predicted values.

#include <span>
#include <vector>

namespace tandem::model {

// The arithmetic mean of `values`; NaN if there are none.
[[nodiscard]] double mean(std::span<const double> values);

// The value at quantile `q` of `values`, 0 to 1, by linear interpolation between the order
// statistics (the default of NumPy): the median of {1, 2, 4, 8}, q = 0.5, is 3. NaN if there are no
// values or one of them is NaN. Throws logic_error for another q.
[[nodiscard]] double quantile(std::vector<double> values, double q);

}  // namespace tandem::model
