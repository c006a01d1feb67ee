#include "exec/testbed/plan_check.hpp"

#include "exec/emulation/dilation.hpp"
#include "exec/testbed/testbed_facts.hpp"
#include "model/base/error.hpp"
#include "model/base/text_table.hpp"

namespace tandem::exec {

void check_testbed_plan(const planner::Plan& plan, const std::string& network,
                        const std::string& platform, double dilation) {
  if (network_digest(plan.cluster) != network)
    throw Error("plan: of platform '" + plan.cluster.name() +
                "', whose devices and links differ from those of the testbed's platform '" +
                platform + "'; plan with --platform of the testbed");
  const double demand = peak_demand(plan);
  const double needed = dilation_for(demand, Pace::measured, 1);
  if (dilation >= needed) return;
  throw Error("plan: its devices need " + model::fixed(demand, 2) +
              " of this machine's speed at once, expected at most " +
              model::fixed(demand / needed * dilation, 2) +
              " by the wall clock; give `testbed run` '--tcp pinned --dilate " +
              model::fixed(needed, 2) +
              "', raise tandem:slowdown in the platform, or use `tandem run --emulate`");
}

}  // namespace tandem::exec
