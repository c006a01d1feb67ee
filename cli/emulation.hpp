#pragma once

// What `tandem run --emulate` starts on this machine.

#include <memory>
#include <string>

#include "cli/flags/options.hpp"
#include "exec/emulation/local_cluster.hpp"
#include "exec/emulation/turn.hpp"
#include "exec/master.hpp"
#include "model/result.hpp"
#include "planner/plan.hpp"

namespace tandem::cli {

// The emulated devices of a plan, from before they start until they have left.
class Emulation {
 public:
  // Reads `--dilate`; by default what the devices need of this machine decides. Adds dilation to
  // `run`, whose pace is an emulated one.
  Emulation(const planner::Plan& plan, const Options& options, exec::GenerateOptions& run);
  // Starts the devices; adds key, ledger, turns and addresses to `run`. Says on stderr, unless
  // `--quiet`, if time passes slowly.
  void start(exec::GenerateOptions& run);
  // Waits for the devices to leave.
  void finish();
  void describe(model::Result& result) const;

 private:
  const planner::Plan* plan_;
  bool quiet_;
  exec::Pace pace_;
  double demand_;
  double dilation_;
  std::string punctuality_;
  std::unique_ptr<exec::LocalCluster> cluster_;
};

}  // namespace tandem::cli
