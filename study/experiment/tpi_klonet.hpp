#pragma once

// TPI-LLM's emulated testbed, with what the paper does not state of it.

#include <string>
#include <string_view>
#include <vector>

#include "study/experiment/tpi.hpp"

namespace tandem::study {

// Rows of Table 1 that constants come from: the largest model that runs without the scheduler, and
// the model that the paper is about.
inline constexpr std::string_view kCalibratesCompute = "llama-2-13b";
inline constexpr std::string_view kCalibratesDisk = "llama-2-70b";

struct Klonet {
  Testbed testbed;
  std::vector<std::string> remarks;  // the constants and where they come from
};

// Compute speed and prompt length from latency and first token of kCalibratesCompute without the
// scheduler, then the disk's rate from the latency of kCalibratesDisk with it.
[[nodiscard]] Klonet calibrated_klonet(const Scenarios& scenarios);

// Whether `needed` bytes fit a device's 8 GB and 4 GB of swap, and a token's pass its memory: then
// nothing is swapped while it runs.
[[nodiscard]] bool klonet_fits(const model::Transformer& transformer, double needed);

}  // namespace tandem::study
