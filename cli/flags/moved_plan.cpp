#include "cli/flags/moved_plan.hpp"

#include <string>
#include <utility>

#include "advice/other_platform.hpp"
#include "cli/files/files.hpp"
#include "cli/flags/plan_flags.hpp"
#include "cli/flags/platform_flags.hpp"
#include "sim/platform/platform.hpp"

namespace tandem::cli {

std::vector<Flag> moved_plan_flags() {
  return {{"platform", "P",
           "another platform, with hosts of the devices' names: their speeds, memory and network "
           "are its own, all else stays the plan's [the plan's]"},
          kDefaultFlag};
}

planner::PlanFile moved_plan(const Options& options, planner::PlanFile file) {
  const std::optional<std::string> name = options.text("platform");
  if (!name) {
    options.refuse({"default"}, "without '--platform', of which it is read");
    return file;
  }
  sim::PlatformOptions reading{
      .used_by = "the plan",
      .used_remedy = "rename its hosts in a copy of the file, or plan for it",
      .defaults = platform_defaults(options)};
  for (const model::Device& device : file.plan.cluster.devices())
    reading.used.push_back(device.name);
  const sim::Platform platform = sim::read_platform(find_platform(*name).string(), reading);
  study::StatedPlatform stated{.cluster = platform.cluster, .shares = platform.shares};
  for (const model::Device& device : platform.cluster.devices()) {
    const auto share = platform.shares.find(device.name);
    std::string remark;
    stated.profiles.emplace(
        device.name,
        platform_profile(device, platform.processors,
                         share == platform.shares.end() ? nullptr : &share->second, remark));
    options.remark(remark);
  }
  for (const std::string& remark : platform_remarks(platform, platform.cluster))
    options.remark(remark);
  study::MovedPlan moved = study::on_platform(file, stated);
  options.remark("platform '" + moved.file.plan.cluster.name() + "' instead of '" +
                 file.plan.cluster.name() +
                 "': speeds, memory, disks and network are its own; devices, their shares of the "
                 "model, windows, formats and requests stay the plan's, and 'tandem plan' may find "
                 "better ones for it");
  if (!moved.measured.empty())
    options.remark("speeds of " + listed(moved.measured) +
                   " stay those of the plan, which were measured");
  return std::move(moved.file);
}

}  // namespace tandem::cli
