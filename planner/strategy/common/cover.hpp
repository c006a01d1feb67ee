#pragma once

// What strategies ask of a plan's shares.

#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

[[nodiscard]] std::vector<model::DeviceIndex> all_devices(const Plan& plan);

// Throws Error unless the master, and nobody else, holds the embedding and the head.
void check_master_ends(const Plan& plan);

// Throws Error unless the shares of `devices` take part in all layers, and their heads as well as
// their columns follow one another without gap or overlap from 0 to the model's number; and the
// other devices hold nothing.
void check_cover(const Plan& plan, const std::vector<model::DeviceIndex>& devices);

// Throws Error unless the device holds all heads and columns of all layers.
void check_whole(const Plan& plan, model::DeviceIndex device);

// Throws Error unless the devices, which share layers, have all their heads and columns together.
void check_split(const Plan& plan, const std::vector<model::DeviceIndex>& devices);

// Throws Error: what is wrong with a device's share.
[[noreturn]] void fail_share(const Plan& plan, model::DeviceIndex device, const std::string& what);
// "[0, 8)".
[[nodiscard]] std::string text(model::Range range);

}  // namespace tandem::planner
