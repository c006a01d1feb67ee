#include "planner/strategy/common/cover.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "model/base/error.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;
using model::Share;

const std::string& name(const Plan& plan, DeviceIndex device) {
  return plan.cluster.devices()[static_cast<std::size_t>(device)].name;
}

const Share& share(const Plan& plan, DeviceIndex device) {
  return plan.devices[static_cast<std::size_t>(device)].share;
}

// Each device's range begins where the one before it ended.
void check_follow(const Plan& plan, const std::vector<DeviceIndex>& devices,
                  Range Share::*dimension, std::int64_t total, const std::string& what) {
  std::int32_t next = 0;
  for (const DeviceIndex device : devices) {
    const Range range = share(plan, device).*dimension;
    if (range.empty()) continue;
    if (range.begin != next) {
      fail_share(plan, device,
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

void check_all_layers(const Plan& plan, DeviceIndex device) {
  const Range all{0, static_cast<std::int32_t>(plan.model.layers)};
  const model::LayerRuns& held = share(plan, device).layers;
  if (held == all) return;
  std::string runs;
  for (std::size_t i = 0; i < held.run_count(); ++i)
    runs += (i > 0 ? " and " : "") + text(held.run(i));
  fail_share(plan, device,
             "takes part in layers " + runs + ": expected all, " + text(all) + ", with strategy '" +
                 plan.strategy + "'");
}

// Rows of the LM head follow one another over all devices, the master's among them.
void check_vocabulary(const Plan& plan) {
  if (!splits_head(plan)) {
    if (share(plan, plan.master).vocabulary.empty()) return;
    fail_share(plan, plan.master,
               "holds rows " + text(share(plan, plan.master).vocabulary) +
                   " of the LM head: expected no such range, as no other device holds the rest");
  }
  if (share(plan, plan.master).vocabulary.empty()) {
    fail_share(plan, plan.master,
               "holds the whole LM head: expected some rows of it, as other devices hold rows");
  }
  check_follow(plan, all_devices(plan), &Share::vocabulary, plan.model.head_rows(),
               "rows of the LM head");
}

}  // namespace

std::vector<DeviceIndex> all_devices(const Plan& plan) {
  std::vector<DeviceIndex> devices(plan.devices.size());
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

std::string text(Range range) {
  std::string result = "[";
  result += std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
  return result;
}

void fail_share(const Plan& plan, DeviceIndex device, const std::string& what) {
  throw Error("plan: device '" + name(plan, device) + "': " + what +
              "; make the plan again with `tandem plan`");
}

void check_master_ends(const Plan& plan) {
  for (DeviceIndex device = 0; device < plan.cluster.size(); ++device) {
    const bool master = device == plan.master;
    const bool may_have_head = master || !share(plan, device).vocabulary.empty();
    if (share(plan, device).embedding != master || (share(plan, device).head && !may_have_head) ||
        (master && !share(plan, device).head)) {
      fail_share(plan, device,
                 master
                     ? "lacks the embedding or the head: expected the master to hold both"
                     : "holds the embedding or the head: expected the master alone to hold them");
    }
  }
  check_vocabulary(plan);
}

void check_cover(const Plan& plan, const std::vector<DeviceIndex>& devices) {
  for (DeviceIndex device = 0; device < plan.cluster.size(); ++device) {
    const Share& held = share(plan, device);
    const bool takes_part = std::find(devices.begin(), devices.end(), device) != devices.end();
    if (!takes_part && !(held.heads.empty() && held.columns.empty() && held.layers.empty())) {
      fail_share(plan, device,
                 "holds a share: expected none with strategy '" + plan.strategy + "'");
    }
    if (!takes_part) continue;
    check_all_layers(plan, device);
    if (held.heads.empty() && held.columns.empty()) {
      fail_share(plan, device, "holds no heads and no columns: expected a share of either");
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
    fail_share(plan, device,
               "holds " + what + " " + text(range) + ": expected all, " + text(all) +
                   ", with strategy '" + plan.strategy + "'");
  };
  check_all_layers(plan, device);
  check(held.heads, plan.model.heads, "heads");
  check(held.columns, plan.model.intermediate, "FFN columns");
}

void check_split(const Plan& plan, const std::vector<DeviceIndex>& devices) {
  if (devices.size() == 1) {
    const Share& held = share(plan, devices.front());
    const Range heads{0, static_cast<std::int32_t>(plan.model.heads)};
    const Range columns{0, static_cast<std::int32_t>(plan.model.intermediate)};
    if (held.heads == heads && held.columns == columns) return;
    fail_share(plan, devices.front(),
               "holds heads " + text(held.heads) + " and FFN columns " + text(held.columns) +
                   ": expected all of its layers");
  }
  check_follow(plan, devices, &Share::heads, plan.model.heads, "heads");
  check_follow(plan, devices, &Share::columns, plan.model.intermediate, "FFN columns");
}

void check_token_columns(const Plan& plan) {
  if (!has_column_parts(plan)) return;
  std::int32_t next = 0;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const model::Range columns = plan.devices[d].share.part.columns;
    if (columns.empty()) continue;
    if (columns.begin != next) {
      fail_share(plan, static_cast<model::DeviceIndex>(d),
                 "computes FFN columns " + text(columns) +
                     " of new tokens: expected them to begin at " + std::to_string(next) +
                     ", where the device before ends");
    }
    next = columns.end;
  }
  if (next != plan.model.intermediate) {
    throw Error("plan: FFN columns that devices compute of new tokens end at " +
                std::to_string(next) + ": expected all " + std::to_string(plan.model.intermediate) +
                " of the model; make the plan again with `tandem plan`");
  }
  if (plan.workload.steps() < 2) {
    throw Error(
        "plan: FFN columns that devices compute of new tokens: expected none with fewer than 2 new "
        "tokens, as nothing is computed after the prompt; make the plan again with `tandem plan`");
  }
}

}  // namespace tandem::planner
