#pragma once

// The timeline of a run from the records of all devices.

#include <vector>

#include "exec/runtime/run_result.hpp"

namespace tandem::exec {

// Throws Error, naming the device, unless `times` covers exactly the tasks of `device` in these
// steps.
void check_records(const planner::Plan& plan, model::Steps& steps, model::DeviceIndex device,
                   const TimeLog& times);

// Merges the devices' records, checked by check_records(), by step and task. A cpu task's span is
// its device's; a transfer lasts from the sender's start to the receiver's arrival, with clocks
// aligned to the master's; captures and deliveries are separate spans. What only a missing device
// could report is absent. A nanosecond of the devices' clocks is `tick_s` in the trace.
[[nodiscard]] model::Trace merge_spans(const planner::Plan& plan, model::Steps& steps,
                                       const std::vector<DeviceAccount>& accounts, double tick_s);

}  // namespace tandem::exec
