#pragma once

// A prompt's positions, dealt to the devices of a plan whose strategy parts caches
// (KvCache::by_position).

#include <cstdint>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Who owns a position keeps its keys and values and computes the row that stands there (CSPS's
// decode over a spread cache, "Q moves", for prompts as well). Of a prompt devices have what the
// plan says (Share::part), one range each; positions that follow are all of the device with the
// prompt's last.
struct PositionPart {
  model::DeviceIndex device = 0;
  model::Range positions{};  // of the last part without an end
  bool operator==(const PositionPart&) const = default;
};
// The parts in the order of positions, those without any first.
[[nodiscard]] std::vector<PositionPart> position_parts(const Plan& plan);
// Throws Error unless the plan's parts follow one another over the whole prompt, with the master's
// last where keys and values move to it once.
void check_positions(const Plan& plan);

// How a plan without shares deals them. The devices in the order of their parts: that of ranks (of
// the collective that the plan names), but the device with room last, which has the largest memory
// budget, the master among equals; where keys and values of all go to the master, that.
[[nodiscard]] std::vector<model::DeviceIndex> position_order(const Plan& plan);
// Whether the prompt has two positions for each device; else all of it is the device's with room.
[[nodiscard]] bool parts_positions(const Plan& plan);
// How many positions of the prompt each device has, by device, in proportion to `weights`: equal
// ones are equal parts, the larger ones first. Memory is not looked at.
[[nodiscard]] std::vector<std::int64_t> positions_in_proportion(const Plan& plan,
                                                                const std::vector<double>& weights);
// The same, such that what a prompt's rows and those who ask for their keys take is as even as can
// be, by the cost model, with a causal mask: the first parts are asked by all that follow. Part i
// of S_i positions, a_i seconds a row besides attention and b_i a row and key, P of the prompt:
//   S_i (a_i + b_i (P - positions before it - S_i / 2)), equal for all i
[[nodiscard]] std::vector<std::int64_t> positions_by_prompt_work(const Plan& plan);

}  // namespace tandem::planner
