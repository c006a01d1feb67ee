#pragma once

// The stages of a pipeline: an ordered list, each with some devices and a run of layers.

#include <cstddef>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Devices that compute a run of layers; stages are in the order of layers. A device with several
// runs belongs to several stages; devices with the same run share its heads and FFN columns.
struct Stage {
  std::vector<model::DeviceIndex> devices{};  // ascending
  model::DeviceIndex root = 0;                // the first of them in the plan's layout
  model::Range layers{};
  bool operator==(const Stage&) const = default;
};

// Returns the plan's stages in the order of their layers; a device without layers is in none.
[[nodiscard]] std::vector<Stage> stages(const Plan& plan);

// Returns whether some device belongs to several stages: steps then visit it several times.
[[nodiscard]] bool has_rounds(const Plan& plan);
// Returns whether some stage has several devices, whose partial results are summed.
[[nodiscard]] bool has_groups(const Plan& plan);

// Returns the most runs of layers that a device has: 1 without rounds.
[[nodiscard]] std::size_t round_count(const Plan& plan);
// Returns the names of each stage's devices, "a,b/c,d", in the syntax of the planner; empty without
// groups.
[[nodiscard]] std::string group_names(const Plan& plan);

// Returns whether the plan has an all-reduce and a layout: for its strategy, or for groups.
[[nodiscard]] bool joins(const Plan& plan);

// Returns whether rows are split, so that the messages of a step depend on its rows: by the plan's
// strategy or by that of its groups.
[[nodiscard]] bool splits_rows(const Plan& plan);
// Returns whether Plan::tiles applies.
[[nodiscard]] bool has_tiles(const Plan& plan);

// Throws Error unless the stages cover all layers in order, and the devices of each cover all heads
// and columns.
void check_stages(const Plan& plan);

}  // namespace tandem::planner
