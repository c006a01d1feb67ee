#pragma once

// What a profile's measurement says of its own errors.

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "exec/profiling/profile_rig.hpp"
#include "model/graph/task_graph.hpp"
#include "model/predict/device_profile.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

// ln(predicted / measured) of sizes that the prediction was not fitted to, by TaskKind.
using HeldOut = std::array<std::vector<double>, model::kTaskKinds>;

// Returns the standard deviation within `groups` of the logarithms of their positive values, from
//   d = (ln x - mean of the group's ln x) sqrt(n / (n - 1))
// for each value of a group of n: sqrt(sum of (ln x - mean)^2 / sum of (n - 1)); of twenty or more
// the distance from their 5th to their 95th percentile over 2 * 1.645, which single interruptions
// do not determine. Nothing where no group has two values.
[[nodiscard]] std::optional<double> relative_spread(std::span<const std::vector<double>> groups);

// Adds to `held_out` how far off a fit to `log` is for the sizes of `measured`, for every kind that
// both have.
void add_errors(const ProfileLog& log, const ProfileLog& measured, HeldOut& held_out);

// The errors of the rate of `kind` in `format`: the root mean square of `held_out` and the spread
// of `log` from moment to moment beyond the machine's own, `drift`. Where nothing was held out, or
// no size was measured twice, a tenth: what was measured less is not more certain.
[[nodiscard]] model::RateError rate_error(const ProfileLog& log, model::TaskKind kind,
                                          std::optional<model::WeightFormat> format,
                                          std::span<const double> held_out, double drift);

// As profiles keep it, in ten-thousandths.
[[nodiscard]] double kept_deviation(double deviation);

}  // namespace tandem::exec
