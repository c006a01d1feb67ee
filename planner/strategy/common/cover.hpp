#pragma once

// Checks of a plan's shares that strategies have in common.

#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

[[nodiscard]] std::vector<model::DeviceIndex> all_devices(const Plan& plan);

// Throws Error unless only the master holds the embedding and the head.
void check_master_ends(const Plan& plan);

// Throws Error unless the shares of `devices` have all layers, their heads and their columns each
// cover the model's from 0 without gap or overlap, and the other devices hold nothing.
void check_cover(const Plan& plan, const std::vector<model::DeviceIndex>& devices);

// Throws Error unless the device holds all heads and columns of all layers.
void check_whole(const Plan& plan, model::DeviceIndex device);

// Throws Error unless the devices, which have the same layers, together cover all heads and
// columns.
void check_split(const Plan& plan, const std::vector<model::DeviceIndex>& devices);

// Throws Error unless the parts of the FFN of new tokens follow one another and cover it, if there
// are any, and tokens that need them.
void check_token_columns(const Plan& plan);

// Throws Error about a device's share.
[[noreturn]] void fail_share(const Plan& plan, model::DeviceIndex device, const std::string& what);
// "[0, 8)".
[[nodiscard]] std::string text(model::Range range);

}  // namespace tandem::planner
