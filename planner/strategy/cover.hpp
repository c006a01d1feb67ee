#pragma once

// What strategies ask of a plan's shares.

#include <vector>

#include "planner/plan.hpp"

namespace tandem::planner {

// Throws Error unless the master, and nobody else, holds the embedding and the head.
void check_master_ends(const Plan& plan);

// Throws Error unless the shares of `devices` take part in all layers, and their heads as well as
// their columns follow one another without gap or overlap from 0 to the model's number; and the
// other devices hold nothing.
void check_cover(const Plan& plan, const std::vector<model::DeviceIndex>& devices);

// Throws Error unless the device holds all heads and columns of all layers.
void check_whole(const Plan& plan, model::DeviceIndex device);

// Throws Error unless the layers of the devices, in `order`, follow one another without gap or
// overlap from 0 to the model's number, and whoever has layers has all their heads and columns.
void check_layers(const Plan& plan, const std::vector<model::DeviceIndex>& order);

}  // namespace tandem::planner
