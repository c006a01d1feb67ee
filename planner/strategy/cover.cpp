#include "planner/strategy/cover.hpp"

#include <algorithm>
#include <string>

#include "model/error.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;
using model::Share;

std::string text(Range range) {
  std::string result = "[";
  result += std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
  return result;
}

const std::string& name(const Plan& plan, DeviceIndex device) {
  return plan.cluster.devices()[static_cast<std::size_t>(device)].name;
}

const Share& share(const Plan& plan, DeviceIndex device) {
  return plan.devices[static_cast<std::size_t>(device)].share;
}

[[noreturn]] void fail(const Plan& plan, DeviceIndex device, const std::string& what) {
  throw Error("plan: device '" + name(plan, device) + "': " + what +
              "; make the plan again with `tandem plan`");
}

// Each device's range begins where the one before it ended.
void check_follow(const Plan& plan, const std::vector<DeviceIndex>& devices,
                  Range Share::*dimension, std::int64_t total, const std::string& what) {
  std::int32_t next = 0;
  for (const DeviceIndex device : devices) {
    const Range range = share(plan, device).*dimension;
    if (range.empty()) continue;
    if (range.begin != next) {
      fail(plan, device,
           what + " " + text(range) + ": expected them to begin at " + std::to_string(next) +
               ", where the device before ends");
    }
    next = range.end;
  }
  if (next != total) {
    throw Error("plan: " + what + " of all devices end at " + std::to_string(next) +
                ": expected all " + std::to_string(total) +
                " of the model; make the plan again with `tandem plan`");
  }
}

}  // namespace

void check_master_ends(const Plan& plan) {
  for (DeviceIndex device = 0; device < plan.cluster.size(); ++device) {
    const bool master = device == plan.master;
    if (share(plan, device).embedding != master || share(plan, device).head != master) {
      fail(plan, device,
           master ? "lacks the embedding or the head: expected the master to hold both"
                  : "holds the embedding or the head: expected the master alone to hold them");
    }
  }
}

void check_cover(const Plan& plan, const std::vector<DeviceIndex>& devices) {
  const Range layers{0, static_cast<std::int32_t>(plan.model.layers)};
  for (DeviceIndex device = 0; device < plan.cluster.size(); ++device) {
    const Share& held = share(plan, device);
    const bool takes_part = std::find(devices.begin(), devices.end(), device) != devices.end();
    if (!takes_part && !(held.heads.empty() && held.columns.empty() && held.layers.empty())) {
      fail(plan, device, "holds a share: expected none with strategy '" + plan.strategy + "'");
    }
    if (!takes_part) continue;
    if (!(held.layers == layers)) {
      fail(plan, device,
           "takes part in layers " + text(held.layers) + ": expected all, " + text(layers));
    }
    if (held.heads.empty() && held.columns.empty()) {
      fail(plan, device, "holds no heads and no columns: expected a share of either");
    }
  }
  check_follow(plan, devices, &Share::heads, plan.model.heads, "heads");
  check_follow(plan, devices, &Share::columns, plan.model.intermediate, "FFN columns");
}

void check_whole(const Plan& plan, DeviceIndex device) {
  const Share& held = share(plan, device);
  const auto check = [&](Range range, std::int64_t total, const std::string& what) {
    const Range all{0, static_cast<std::int32_t>(total)};
    if (range == all) return;
    fail(plan, device,
         "holds " + what + " " + text(range) + ": expected all, " + text(all) +
             ", with strategy '" + plan.strategy + "'");
  };
  check(held.layers, plan.model.layers, "layers");
  check(held.heads, plan.model.heads, "heads");
  check(held.columns, plan.model.intermediate, "FFN columns");
}

void check_layers(const Plan& plan, const std::vector<DeviceIndex>& order) {
  const Range heads{0, static_cast<std::int32_t>(plan.model.heads)};
  const Range columns{0, static_cast<std::int32_t>(plan.model.intermediate)};
  for (const DeviceIndex device : order) {
    const Share& held = share(plan, device);
    const bool none = held.layers.empty();
    if (held.heads == (none ? Range{} : heads) && held.columns == (none ? Range{} : columns))
      continue;
    fail(plan, device,
         "holds heads " + text(held.heads) + " and FFN columns " + text(held.columns) +
             ": expected " + (none ? "none, as it has no layers" : "all of its layers"));
  }
  check_follow(plan, order, &Share::layers, plan.model.layers, "layers");
}

}  // namespace tandem::planner
