#pragma once

// What a pipeline is: an ordered list of stages, each some devices and a run of layers.

#include <cstddef>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Those who compute a run of layers, one after the other in the order of layers. A device that has
// several runs stands in several stages; devices that have the same run share its heads and FFN
// columns.
struct Stage {
  std::vector<model::DeviceIndex> devices{};  // ascending
  model::DeviceIndex root = 0;                // of them the first in the plan's layout
  model::Range layers{};
  bool operator==(const Stage&) const = default;
};

// As the plan's shares say, in the order of their layers; a device without layers is in none.
[[nodiscard]] std::vector<Stage> stages(const Plan& plan);

// Whether some device stands in several stages: steps then visit it several times.
[[nodiscard]] bool has_rounds(const Plan& plan);
// Whether some stage is of several devices, whose partial results are summed.
[[nodiscard]] bool has_groups(const Plan& plan);

// The most runs of layers that a device has: 1 without rounds.
[[nodiscard]] std::size_t round_count(const Plan& plan);
// Names of the devices of each stage, "a,b/c,d", as the planner takes them; empty without groups.
[[nodiscard]] std::string group_names(const Plan& plan);

// Whether the plan has an all-reduce and a layout: by its strategy, or for groups.
[[nodiscard]] bool joins(const Plan& plan);

// Whether a step's rows are parted, so that which messages there are depends on the rows: by the
// plan's strategy, or that of its groups.
[[nodiscard]] bool parts_rows(const Plan& plan);
// Whether Plan::tiles applies.
[[nodiscard]] bool has_tiles(const Plan& plan);

// Throws Error unless stages follow one another over all layers, and the devices of each share all
// heads and columns.
void check_stages(const Plan& plan);

}  // namespace tandem::planner
