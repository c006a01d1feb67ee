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

// Returns the standard deviation within `groups` of the logarithms of their positive values:
//   sqrt(sum over groups and values of (ln x - mean of the group's ln x)^2 / sum of (n - 1))
// 0 where no group has two values.
[[nodiscard]] double relative_spread(std::span<const std::vector<double>> groups);

// Adds to `held_out` how far off a fit to `log` is for the sizes of `measured`, for every kind that
// both have.
void add_errors(const ProfileLog& log, const ProfileLog& measured, HeldOut& held_out);

// The errors of the rate of `kind` in `format`: the root mean square of `held_out` (0 if it has
// none) and the spread of `log` from moment to moment beyond the machine's own, `drift`.
[[nodiscard]] model::RateError rate_error(const ProfileLog& log, model::TaskKind kind,
                                          std::optional<model::WeightFormat> format,
                                          std::span<const double> held_out, double drift);

// As profiles keep it, in ten-thousandths.
[[nodiscard]] double kept_deviation(double deviation);

}  // namespace tandem::exec
