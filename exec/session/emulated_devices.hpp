#pragma once

// The devices of a plan as processes of this machine, paced as the plan's platform says.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "exec/emulation/local_cluster.hpp"
#include "exec/emulation/turn.hpp"
#include "exec/session/master_options.hpp"
#include "model/report/result.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::exec {

// Returns how many times more slowly emulated time passes if this machine emulates the plan's
// devices.
[[nodiscard]] double dilation_here(const planner::Plan& plan, Pace pace);

// From before the devices start until they have left. As a LocalCluster, it is to be made by a
// thread that lives as long as the process.
class EmulatedDevices {
 public:
  // `pace` is an emulated one. `dilation`: how many times more slowly emulated time passes; what
  // the devices need of this machine decides without it.
  EmulatedDevices(const planner::Plan& plan, Pace pace, std::optional<double> dilation);

  // Starts the devices, each a process of `program`, a tandem; adds pace, dilation, key, ledger,
  // turns and addresses to `run`. Tells `run.on_warning` if time passes slowly. Throws Error as
  // LocalCluster does.
  void start(const std::filesystem::path& program, GenerateOptions& run);
  // Waits for the devices to leave.
  void finish();
  // Adds how the devices were emulated to the result's environment.
  void describe(model::Result& result) const;

 private:
  const planner::Plan* plan_;
  Pace pace_;
  double demand_;
  double dilation_;
  std::string punctuality_;
  std::unique_ptr<LocalCluster> cluster_;
};

}  // namespace tandem::exec
