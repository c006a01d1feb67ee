#pragma once

// Many requests served by the master of a session: the scheduler is asked, steps are announced and
// executed, tokens are chosen and handed out.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "exec/runtime/device_run.hpp"
#include "exec/session/master_options.hpp"
#include "model/report/result.hpp"
#include "model/report/trace.hpp"
#include "planner/serving/request_scheduler.hpp"

namespace tandem::exec {

// What the session lends.
struct ServingHands {
  // `what` is waited for, for a notice; empty: nothing that takes long.
  std::function<void(Clock::time_point when, const std::string& what)> wait_until;
  // Tells every other device of the step.
  std::function<void(std::int32_t step, const model::Batch& batch,
                     const std::vector<std::int32_t>& tokens)>
      announce;
  // Executes the master's part, which begins no earlier than `not_before`; nothing if its finish is
  // still to come.
  std::function<std::optional<DeviceRun::Served>(
      std::int32_t step, const model::Batch& batch, std::span<const std::int32_t> tokens,
      const SampleToken& sample, Clock::time_point not_before)>
      execute;
  // Of the first finish to come: when its messages were there, if before `deadline`; and the rest
  // of that step.
  std::function<std::optional<Clock::time_point>(Clock::time_point deadline)> await_finish;
  std::function<DeviceRun::Served(const SampleToken& sample)> finish;
  // Waits a moment for news of the options' source.
  std::function<void()> await_news;
  // A token of a request, unless the options have a source; `last`: the request has ended.
  std::function<void(std::size_t request, std::int32_t token, bool last)> on_token;
  std::function<void(std::int32_t step)> after_step;
};

class RequestServing {
 public:
  // `options` outlives this. `stop_tokens` end a request unless it ignores them; every step keeps
  // within `capacity`; emulated time passes `dilation` times more slowly. `places`: of the plan.
  RequestServing(const ServeOptions& options, std::vector<std::int64_t> stop_tokens,
                 const planner::Capacity& capacity, double dilation,
                 planner::CachePlaces places = {});

  // Steps as the scheduler makes them, until every request has ended and the source, if there is
  // one, has closed; arrivals count from `begin`.
  // Throws Error if the devices do not sample what they are asked for, and what the hands throw.
  void run(Clock::time_point begin, const ServingHands& hands);

  // The steps that were made; none with a source, which may go on for ever.
  [[nodiscard]] std::vector<model::ScheduledStep> scheduled() const;
  // All steps, with what became of them.
  [[nodiscard]] const std::vector<model::ServedStep>& served() const { return served_; }
  // How many more steps there are to make, if steps go on to make as many tokens as they have made
  // in the mean (one, before the first) and requests make all that they may.
  [[nodiscard]] std::int64_t steps_left() const;
  // Sets what `result` says of requests.
  void fill(model::Result& result) const;
  // Seconds of emulated time from the beginning to `at_ns` of the master's steady clock.
  [[nodiscard]] double since_begin(std::int64_t at_ns) const;

 private:
  // A request that has not ended or, without a source, any.
  struct Request {
    planner::InferenceRequest request;
    Sampler sampler;
    std::optional<std::size_t> logprobs{};  // as of LiveRequest
    std::vector<std::int32_t> tokens{};
    bool begun = false;  // has had rows
    bool over = false;   // ended, or left
  };
  // A step that was submitted and has no outcome yet.
  struct Flying {
    std::int32_t number = 0;
    model::ServedStep step{};
    std::vector<std::int32_t> rows{};
    // Requests by number, in the order of its rows; they may have left.
    std::vector<std::pair<std::size_t, std::shared_ptr<Request>>> sampled{};
    std::vector<std::int32_t> tokens{};               // of these, so far
    std::map<std::size_t, TokenLogprobs> logprobs{};  // by place in tokens, where asked for
    bool begun = false;
  };
  void add(LiveRequest joined);
  [[nodiscard]] bool ends(const Request& request, std::int32_t token) const;
  // Takes news from the source; returns whether there were any.
  bool receive();
  // Seconds since the beginning.
  [[nodiscard]] double present() const;
  [[nodiscard]] Clock::time_point at(double seconds) const;
  // "request 'b'": the first that arrives at `seconds` or later; empty if there is none.
  [[nodiscard]] std::string arriving(double seconds) const;
  // Asks the scheduler until it has no more steps for now.
  void ask(double now, std::span<const model::StepOutcome> ended);
  // Reports requests whose first rows are in `batch` to the source.
  void report_begun(const model::Batch& batch);
  // The next thing that the master's lane does, or waits for. True: a step has its outcome, which
  // is that of flying_'s first.
  bool act();
  bool begin(Flying& flying);
  void finish(Flying& flying);
  [[nodiscard]] static SampleToken sampler(Flying& flying);
  void end(Flying& flying, const DeviceRun::Served& done);
  // Hands out the tokens of the step that has ended.
  model::StepOutcome deliver();

  const ServeOptions* options_;
  std::vector<std::int64_t> stop_tokens_;
  planner::Capacity capacity_;
  planner::CachePlaces places_;
  double dilation_;
  std::int64_t begin_ns_ = 0;
  std::size_t added_ = 0;                                     // number of requests so far
  std::map<std::size_t, std::shared_ptr<Request>> requests_;  // by number
  std::vector<model::ServedStep> served_;  // of all steps that have ended; none with a source
  std::int64_t made_ = 0;                  // tokens
  std::int64_t sampling_steps_ = 0;        // of those that have ended
  // While it runs:
  Clock::time_point begin_{};
  const ServingHands* hands_ = nullptr;
  planner::RequestScheduler* scheduler_ = nullptr;
  std::deque<Flying> flying_;  // by number
  std::int32_t steps_ = 0;     // submitted
  double now_ = 0.0;
  bool closed_ = false;   // no further requests will join
  double until_s_ = 0.0;  // when the scheduler wants to be asked again
};

}  // namespace tandem::exec
