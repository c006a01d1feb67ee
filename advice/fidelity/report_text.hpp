#pragma once

// The table and the summary of `tandem fidelity`.

#include <iosfwd>
#include <string>
#include <vector>

#include "advice/fidelity/recording.hpp"

namespace tandem::study {

// A row a configuration and judged metric: configuration, a column a factor, way, metric, unit,
// predicted, predicted_after, measured (median), measured_min, measured_max, runs, percent,
// interval_low, interval_high, drift, counts (1 or 0).
[[nodiscard]] std::string fidelity_csv(const std::vector<Recording>& recordings);

// Median, 95th percentile and worst |deviation| by metric, of all sittings and of those that count;
// how many intervals hold; which task kinds deviate most. Nothing without recordings.
void print_fidelity(const std::vector<Recording>& recordings, std::ostream& out);

// A deviation with its sign: "+3.1%"; "-" if it is not finite.
[[nodiscard]] std::string percent_text(double percent);
// Without a sign.
[[nodiscard]] std::string size_text(double percent);

}  // namespace tandem::study
