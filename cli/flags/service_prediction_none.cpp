// Builds without the simulator.

#include "cli/flags/service_planner.hpp"
#include "cli/flags/service_prediction.hpp"

namespace tandem::cli {

namespace {
constexpr const char* kNoSimulator = "this build of tandem has no simulator";
}  // namespace

serve::Prediction service_prediction(const Options& /*options*/, const ServiceJob& /*job*/) {
  return {.reason = kNoSimulator};
}

serve::PlannerAccess service_planner(const Options& /*options*/, const ServiceJob& /*job*/) {
  return {.reason = kNoSimulator};
}

}  // namespace tandem::cli
