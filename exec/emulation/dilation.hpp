#pragma once

// Emulated time that passes more slowly than this machine's, where devices need more of the machine
// than there is.

#include "exec/emulation/pacer.hpp"
#include "model/cluster/cluster.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::exec {

// `cluster` with every link `dilation` times as slow: latency times it, bandwidth divided by it.
// Routes are the same. Throws logic_error unless dilation is at least 1.
[[nodiscard]] model::Cluster dilated(const model::Cluster& cluster, double dilation);

// How much of this machine's computing the emulated devices of `plan` need at once, at most: the
// sum of 1 / slowdown over the devices that compute; if their tasks can only be executed one after
// the other, as in a pipeline, the greatest of them.
[[nodiscard]] double peak_demand(const planner::Plan& plan);

// The least dilation, in hundredths, with which `demand` leaves lanes the time to catch up with a
// late wake-up or another's turn:
//   max(1, demand / (0.7 * capacity))
// capacity: 1 with turns (measured pace), as one device computes at a time; else `cores`.
[[nodiscard]] double dilation_for(double demand, Pace pace, int cores);

}  // namespace tandem::exec
