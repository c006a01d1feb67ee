#pragma once

// Asks the workers what they saw, when a run is done. Private to the master.

#include <chrono>
#include <cstddef>
#include <vector>

#include "exec/runtime/run_result.hpp"
#include "exec/transport/control.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::exec {

class ReportGathering {
 public:
  // At most `most_records`, by device, are believed; each piece of a report may take `patience`.
  // `control` and `plan` outlive this object.
  ReportGathering(Control& control, const planner::Plan& plan,
                  std::vector<std::size_t> most_records, std::chrono::milliseconds patience);

  // The device's report, its records, and its clock by the fastest of a few exchanges. Throws
  // Error.
  [[nodiscard]] DeviceAccount account_of(model::DeviceIndex d);
  // How far one of the clocks that were compared may be off, the worst of them.
  [[nodiscard]] double clock_uncertainty_s() const { return clock_uncertainty_s_; }

 private:
  DeviceReport ask(model::DeviceIndex d);

  Control* control_;
  const planner::Plan* plan_;
  std::vector<std::size_t> most_records_;
  std::chrono::milliseconds patience_;
  double clock_uncertainty_s_ = 0.0;
};

}  // namespace tandem::exec
