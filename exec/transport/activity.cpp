#include "exec/transport/activity.hpp"

#include <algorithm>

namespace tandem::exec {
namespace {

// A peer may say that it has done more than all.
std::string share(const Heartbeat& activity) {
  if (activity.total == 0) return "";
  const double part = static_cast<double>(activity.done) / static_cast<double>(activity.total);
  return ", " + std::to_string(static_cast<int>(std::min(part, 1.0) * 100.0)) + "%";
}

}  // namespace

bool works_itself(const Heartbeat& activity) { return activity.phase == Phase::slicing; }

std::string describe(const Heartbeat& activity,
                     const std::function<std::string(model::DeviceIndex)>& name) {
  const bool someone = activity.subject != Activity::kNobody;
  const std::string subject = someone ? name(activity.subject) : "a device";
  switch (activity.phase) {
    case Phase::waiting:
      return someone ? "waits for " + subject : "waits for the master";
    case Phase::slicing:
      return "slices the weights of " + subject + share(activity);
    case Phase::checking:
      return "checks its weights" + share(activity);
    case Phase::sending:
      return "sends the weights of " + subject + share(activity);
    case Phase::receiving:
      return "receives its weights" + share(activity);
    case Phase::loading:
      return "loads its weights" + share(activity);
    case Phase::opening:
      return "opens its channels";
    case Phase::warming_up:
      return "warms up";
    case Phase::computing:
      return (activity.total == 0 ? "computes"
                                  : "computes, task " + std::to_string(activity.done) + " of " +
                                        std::to_string(activity.total)) +
             (someone ? ", and waits for " + subject : "");
    case Phase::reporting:
      return "reports" + share(activity);
    case Phase::profiling:
      return "measures its speed" + share(activity);
    case Phase::measuring:
      return "measures its links";
  }
  return "is busy";
}

}  // namespace tandem::exec
