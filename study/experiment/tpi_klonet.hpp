#pragma once

// TPI-LLM's emulated testbed, with constants that the paper does not state.

#include <string>
#include <string_view>
#include <vector>

#include "study/experiment/tpi.hpp"

namespace tandem::study {

// Rows of Table 1 used for calibration: the largest model that runs without the scheduler, and the
// paper's main model.
inline constexpr std::string_view kCalibratesCompute = "llama-2-13b";
inline constexpr std::string_view kCalibratesDisk = "llama-2-70b";

struct Klonet {
  Testbed testbed;
  std::vector<std::string> remarks;  // the constants and their sources
};

// Calibrates compute speed and prompt length by latency and first token of kCalibratesCompute
// without the scheduler, then the disk's rate by the latency of kCalibratesDisk with it.
[[nodiscard]] Klonet calibrated_klonet(const Scenarios& scenarios);

// Returns whether `needed` bytes fit a device's 8 GB and 4 GB of swap, and a token's pass its
// memory: then nothing is swapped during the run.
[[nodiscard]] bool klonet_fits(const model::Transformer& transformer, double needed);

}  // namespace tandem::study
