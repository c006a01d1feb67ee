#pragma once

// What the disk cost a run, from its timeline: predicted and measured alike.

#include <optional>
#include <vector>

#include "model/result.hpp"

namespace tandem::model {

// The `steady` of a result, over the steps from `first_step` on (the first of them only closes the
// start-up and begins the clock). Between two exchanges the devices wait for the slowest, so the
// disk delays a token by
//   sum over blocks of  max over devices (compute + stall) - max over devices compute,
// with stalls as the spans state them (Span::stall); a wait that a slower device hides costs
// nothing. stall_fraction is that over the time of the steps; slack_s, a token, is what remains of
// its time without the delay, less the loads of the device that loads longest (negative: the disk
// is too slow by so much); the verdict is "steady" if stall_fraction is at most `tolerance`.
// Empty if nothing was loaded, or there are fewer than two such steps.
[[nodiscard]] std::optional<Steady> steadiness(const Trace& trace, std::int32_t first_step,
                                               double tolerance);

}  // namespace tandem::model
