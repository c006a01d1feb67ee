#pragma once

// Prompts of CSPS's data sets with all three numbers of Table 2: its deviations (506K and 183K)
// need two modes.

#include <cstdint>
#include <vector>

#include "planner/plan/inference_request.hpp"
#include "study/experiment/csps_testbed.hpp"

namespace tandem::study {

// Quantiles of prompts' lengths, ascending and equally likely: one half log-uniform on [least,
// median], the other at the 99th percentile.
struct CspsTwoModes {
  std::int64_t least = 1;
  std::vector<std::int64_t> tokens{};
  [[nodiscard]] double deviation() const;
};

// Returns `count` quantiles, of which `least` gives the table's deviation or is kCspsShortest, if
// even that deviates less.
inline constexpr std::int64_t kCspsShortest = 1'000;  // the shortest group of the figures
[[nodiscard]] CspsTwoModes csps_two_modes(const CspsLengths& lengths, std::size_t count);

// Returns requests with such prompts and new tokens by Table 2's median and 99th percentile
// (log-normal, seed 1), of independent lengths.
[[nodiscard]] std::vector<planner::InferenceRequest> csps_two_mode_requests(
    const CspsLengths& lengths, std::size_t count);

}  // namespace tandem::study
