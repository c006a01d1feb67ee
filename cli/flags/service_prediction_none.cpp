// Builds without the simulator.

#include "cli/flags/service_prediction.hpp"

namespace tandem::cli {

serve::Prediction service_prediction(const Options& /*options*/, const ServiceJob& /*job*/) {
  return {.reason = "this build of tandem has no simulator"};
}

}  // namespace tandem::cli
