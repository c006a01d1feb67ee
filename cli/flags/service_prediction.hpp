#pragma once

// Predictions for requests of a service, if this build has the simulator.

#include "cli/flags/options.hpp"
#include "cli/flags/service_flags.hpp"
#include "serve/cluster_board.hpp"

namespace tandem::cli {

// Returns how requests of `job` alone on its devices are predicted: as by `tandem simulate`, under
// the policy and chunk of the service, without what varies. Without a plan file or the simulator,
// the reason why there is no prediction.
[[nodiscard]] serve::Prediction service_prediction(const Options& options, const ServiceJob& job);

}  // namespace tandem::cli
