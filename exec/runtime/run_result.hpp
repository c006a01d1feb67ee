#pragma once

// The result of a run from the devices' reports.

#include <string>
#include <vector>

#include "exec/runtime/device_run.hpp"
#include "model/report/result.hpp"
#include "model/report/trace.hpp"

namespace tandem::exec {

struct DeviceAccount {  // by DeviceIndex
  DeviceReport report;
  TimeLog times;                    // in order of steps; empty unless records are kept
  std::int64_t clock_ahead_ns = 0;  // its steady clock minus the master's
  bool missing = false;             // the device was lost before its report
};

struct RunResult {
  model::Result result;  // without environment, plan's file names and trace
  model::Trace trace;    // empty unless requested
};

// Throws Error, naming the device, unless the account covers exactly the tasks of `device` in these
// steps: as sums and, with `records`, one by one.
void check_report(const planner::Plan& plan, model::Steps& steps, model::DeviceIndex device,
                  const DeviceAccount& account, bool records);

// Of the times of a run at this pace.
[[nodiscard]] model::ResultOrigin origin_of(Pace pace);

// Returns the result of a run from the devices' tallies alone, so that it is the same with and
// without a trace. A cpu task's time is its device's; a transfer lasts from the sender's start to
// the receiver's arrival, with clocks aligned to the master's; captures and deliveries are separate
// kinds. With `keep_spans` the records make the trace, by merge_spans(). What only a missing device
// could report is NaN, or absent from the trace, and steadiness is then not judged. Every time is
// divided by `dilation`. `served` has the requests' steps in seconds since the master's first
// start; none for a generation. Throws as check_report() does for every device that is not missing.
[[nodiscard]] RunResult merge(const planner::Plan& plan, model::Steps& steps,
                              const std::vector<DeviceAccount>& accounts, bool keep_spans,
                              double dilation = 1.0, std::vector<model::ServedStep> served = {});

// The first `count` steps of a generation.
class FirstSteps : public model::Steps {
 public:
  FirstSteps(StepGraphs& graphs, std::int32_t count) : graphs_(&graphs), count_(count) {}
  [[nodiscard]] std::int32_t count() const override { return count_; }
  const model::TaskGraph& graph(std::int32_t i) override { return graphs_->at(i); }

 private:
  StepGraphs* graphs_;
  std::int32_t count_;
};

}  // namespace tandem::exec
