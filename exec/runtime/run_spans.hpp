#pragma once

// From the records of all devices to the timeline of a run.

#include <vector>

#include "exec/runtime/run_result.hpp"

namespace tandem::exec {

// Throws Error, naming the device, unless `times` has what `device` sees of every task of its own
// in these steps, and nothing else.
void check_records(const planner::Plan& plan, model::Steps& steps, model::DeviceIndex device,
                   const TimeLog& times);

// Merges the devices' records, which check_records() has seen, by step and task: a cpu task's span
// is its device's; a transfer lasts from the sender's start to the receiver's arrival, clocks
// aligned to the master's; captures and deliveries are spans of their own. What only a device that
// is missing could know is absent. A nanosecond of the devices' clocks is `tick_s` in the trace.
[[nodiscard]] model::Trace merge_spans(const planner::Plan& plan, model::Steps& steps,
                                       const std::vector<DeviceAccount>& accounts, double tick_s);

}  // namespace tandem::exec
