#pragma once

// From what each device saw to the result of the run.

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
  bool missing = false;             // the device was lost before it reported: nothing is known
};

struct RunResult {
  model::Result result;  // without environment, plan's file names and trace
  model::Trace trace;    // empty unless asked for
};

// Throws Error, naming the device, unless the account has what `device` sees of every task of its
// own in these steps, and nothing else: in sums and, with `records`, one by one.
void check_report(const planner::Plan& plan, model::Steps& steps, model::DeviceIndex device,
                  const DeviceAccount& account, bool records);

// Of the times of a run at this pace.
[[nodiscard]] model::ResultOrigin origin_of(Pace pace);

// Makes the result of a run out of the devices' tallies alone, so that it is the same with a trace
// and without: a
// cpu task's time is its device's; a transfer lasts from the sender's start to the receiver's
// arrival, clocks aligned to the master's; captures and deliveries are kinds of their own. With
// `keep_spans` the records make the trace, as merge_spans() says.
// What only a device that is missing could know is NaN, or absent from the trace; no verdict on
// steadiness is given then. Every time is divided by `dilation`. `served` has the steps that
// requests made, in seconds since the master's first start; a generation has none. Throws as
// check_report() does for every device that is not missing.
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
