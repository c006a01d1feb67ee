#pragma once

// Where `tandem run` runs a plan: on this machine, on others, emulated, in a testbed.

#include <optional>
#include <string>

#include "cli/flags/options.hpp"
#include "exec/emulation/pacer.hpp"
#include "exec/testbed/testbed_facts.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::cli {

struct RunMode {
  bool emulate = false;
  std::optional<std::string> hosts;
  std::optional<exec::TestbedFacts> testbed{};  // in which all devices are
  exec::Pace pace = exec::Pace::real;
  // Whether all devices are processes of this machine.
  [[nodiscard]] bool one_machine() const { return emulate || testbed; }
};

// What the flags say; `plan`: null without a plan file. Throws Usage for flags that contradict each
// other or have no effect, Error for a plan that the testbed is not for.
[[nodiscard]] RunMode run_mode_of(const Options& options, const planner::Plan* plan);

}  // namespace tandem::cli
