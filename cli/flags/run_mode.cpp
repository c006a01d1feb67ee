#include "cli/flags/run_mode.hpp"

#include <algorithm>
#include <vector>

#include "cli/flags/testbed_flag.hpp"
#include "exec/session/plan_workers.hpp"
#include "exec/testbed/plan_check.hpp"

namespace tandem::cli {

RunMode run_mode_of(const Options& options, const planner::Plan* plan) {
  RunMode mode{.emulate = options.has("emulate"),
               .hosts = options.text("hosts"),
               .testbed = testbed_of(options)};
  if (mode.emulate && mode.hosts)
    throw Usage("flags '--hosts' and '--emulate' contradict each other; give one");
  if (plan != nullptr)
    options.refuse({"memory-limit", "dtype", "cache-type"},
                   "with a plan, which says what each device may use, and weights' formats and the "
                   "cache's");
  if (plan == nullptr) {
    options.refuse({"hosts", "emulate", "key", "testbed", "predicted"},
                   "without a plan, with which this machine runs alone");
  } else {
    const std::vector<bool> workers = exec::workers_of(*plan);
    const auto others = std::count(workers.begin(), workers.end(), true);
    if (!mode.emulate && !mode.hosts && others > 0)
      throw Usage("the plan has " + std::to_string(others + 1) +
                  " working devices; give '--hosts FILE' or '--emulate'");
    if (mode.testbed) {
      exec::check_testbed_plan(*plan, mode.testbed->network, mode.testbed->platform,
                               mode.testbed->dilation);
    } else if (others == 0) {
      options.accept_idle({"hosts", "key"}, "as the plan's master works alone");
      mode.hosts.reset();
    }
  }
  if (mode.one_machine())
    options.refuse({"map"}, "on emulated devices, which share this machine's memory");
  if (options.has("map") && options.has("copy"))
    throw Usage("flags '--map' and '--copy' contradict each other; give one");
  if (mode.one_machine()) options.accept_idle({"copy"}, "on emulated devices, which always copy");
  if (!options.has("hosts"))
    options.refuse({"key", "testbed"}, "without '--hosts', whose devices share it");
  if (mode.testbed) {
    options.refuse({"dilate"}, "with '--testbed': give it to `tandem testbed run`");
    static_cast<void>(options.choice_or("pace", "measured", {"measured"}));
    mode.pace = exec::Pace::measured;
    return mode;
  }
  if (!mode.emulate) {
    options.refuse({"pace", "dilate", "max-drift"}, "without '--emulate' or '--testbed'");
    options.accept_idle({"allow-drift"}, "without '--emulate', as no drift is measured");
    return mode;
  }
  mode.pace = options.choice_or("pace", "measured", {"measured", "nominal"}) == "nominal"
                  ? exec::Pace::nominal
                  : exec::Pace::measured;
  if (mode.pace == exec::Pace::nominal) {
    options.refuse({"max-drift"}, "with '--pace nominal', where nothing drifts");
    options.accept_idle({"allow-drift"}, "with '--pace nominal', where nothing drifts");
  }
  return mode;
}

}  // namespace tandem::cli
