#pragma once

// Many requests served by the master of a session: the scheduler is asked, steps are announced and
// executed, tokens are chosen and handed out.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exec/master.hpp"
#include "exec/runtime/device_run.hpp"
#include "model/trace.hpp"

namespace tandem::exec {

// What the session lends.
struct ServingHands {
  std::function<void(Clock::time_point when)> wait_until;
  // Tells every other device of the step.
  std::function<void(std::int32_t step, const model::Batch& batch,
                     const std::vector<std::int32_t>& tokens)>
      announce;
  // Executes the master's part, which begins no earlier than `not_before`.
  std::function<DeviceRun::Served(std::int32_t step, const model::Batch& batch,
                                  std::span<const std::int32_t> tokens, const SampleToken& sample,
                                  Clock::time_point not_before)>
      execute;
  // A token of a request; `last`: the request has ended.
  std::function<void(std::size_t request, std::int32_t token, bool last)> on_token;
  std::function<void(std::int32_t step)> after_step;
};

class RequestServing {
 public:
  // `options` outlives this. `stop_tokens` end a request unless it ignores them; every step keeps
  // within `capacity`; emulated time passes `dilation` times more slowly.
  RequestServing(const ServeOptions& options, std::vector<std::int64_t> stop_tokens,
                 const planner::Capacity& capacity, double dilation);

  // Steps as the scheduler makes them, until every request has ended; arrivals count from `begin`.
  // Throws Error if the devices do not sample what they are asked for, and what the hands throw.
  void run(Clock::time_point begin, const ServingHands& hands);

  // The steps that were made.
  [[nodiscard]] std::vector<model::ScheduledStep> scheduled() const;
  // Sets what `result` says of requests.
  void fill(model::Result& result) const;
  // Seconds of emulated time from the beginning to `at_ns` of the master's steady clock.
  [[nodiscard]] double since_begin(std::int64_t at_ns) const;

 private:
  [[nodiscard]] bool ends(std::size_t request, std::int32_t token) const;
  // One step; returns the tokens that it sampled.
  std::vector<std::int32_t> step(std::int32_t number, const model::ScheduledStep& step,
                                 const std::vector<std::int32_t>& rows,
                                 Clock::time_point not_before, const ServingHands& hands);

  const ServeOptions* options_;
  std::vector<std::int64_t> stop_tokens_;
  planner::Capacity capacity_;
  double dilation_;
  std::int64_t begin_ns_ = 0;
  std::vector<Sampler> samplers_;                  // by request
  std::vector<std::vector<std::int32_t>> tokens_;  // by request
  std::vector<model::ServedStep> served_;
};

}  // namespace tandem::exec
