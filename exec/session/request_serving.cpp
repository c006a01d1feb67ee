#include "exec/session/request_serving.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "model/base/error.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"

namespace tandem::exec {
namespace {

// Requests whose next tokens a step samples, in the order of its rows.
std::vector<std::size_t> sampled_requests(const model::Batch& batch) {
  std::vector<std::size_t> requests;
  requests.reserve(batch.segments.size());
  for (const model::Segment& segment : batch.segments) {
    if (segment.sampled > 0) requests.push_back(static_cast<std::size_t>(segment.sequence));
  }
  return requests;
}

}  // namespace

RequestServing::RequestServing(const ServeOptions& options, std::vector<std::int64_t> stop_tokens,
                               const planner::Capacity& capacity, double dilation)
    : options_(&options),
      stop_tokens_(std::move(stop_tokens)),
      capacity_(capacity),
      dilation_(dilation),
      tokens_(options.requests.size()) {
  samplers_.reserve(options.requests.size());
  for (const planner::InferenceRequest& request : options.requests) {
    samplers_.emplace_back(SamplingOptions{.temperature = request.temperature,
                                           .top_p = request.top_p,
                                           .seed = request.seed,
                                           .top_k = request.top_k});
  }
}

bool RequestServing::ends(std::size_t request, std::int32_t token) const {
  return !options_->requests[request].ignore_eos &&
         std::ranges::find(stop_tokens_, token) != stop_tokens_.end();
}

Clock::time_point RequestServing::at(double seconds) const {
  const std::chrono::duration<double> after(seconds * dilation_);
  if (after >= Clock::time_point::max() - begin_) return Clock::time_point::max();
  return begin_ + std::chrono::duration_cast<Clock::duration>(after);
}

std::string RequestServing::arriving(double seconds) const {
  const auto next = std::ranges::find_if(
      options_->requests,
      [seconds](const planner::InferenceRequest& request) { return request.arrival_s >= seconds; });
  return next == options_->requests.end() ? "" : "request '" + next->id + "'";
}

void RequestServing::run(Clock::time_point begin, const ServingHands& hands) {
  begin_ = begin;
  begin_ns_ =
      std::chrono::duration_cast<std::chrono::nanoseconds>(begin.time_since_epoch()).count();
  planner::RequestScheduler scheduler(
      options_->requests, *options_->policy,
      {.chunk = options_->chunk,
       .capacity = capacity_,
       .ends = [this](std::size_t request, std::int32_t token) { return ends(request, token); }});
  scheduler_ = &scheduler;
  hands_ = &hands;
  double now = 0.0;
  ask(now, {});
  while (!flying_.empty() || std::isfinite(until_s_)) {
    if (flying_.empty()) {
      now = until_s_;
      hands.wait_until(at(now), arriving(now));
      ask(now, {});
    } else if (act()) {
      const model::ServedStep& done = served_[static_cast<std::size_t>(flying_.front().number)];
      const double time = done.sampled_s.empty() ? done.end_s : done.sampled_s.back();
      // What it wanted to be asked for before that.
      for (; until_s_ < time; ask(now, {})) now = std::max(now, until_s_);
      now = std::max(now, time);
      const model::StepOutcome outcome = deliver();
      ask(now, {&outcome, 1});
      hands.after_step(outcome.step);
    } else if (std::isfinite(until_s_) && Clock::now() >= at(until_s_)) {
      now = std::max(now, until_s_);
      ask(now, {});
    }
  }
}

void RequestServing::ask(double now, std::span<const model::StepOutcome> ended) {
  while (true) {
    model::Decision next = scheduler_->next(now, ended);
    ended = {};
    until_s_ = next.until_s;
    if (!next.step) return;
    const auto number = static_cast<std::int32_t>(served_.size());
    served_.push_back({.step = *next.step, .sampled_s = {}, .end_s = 0.0});
    Flying& flying = flying_.emplace_back();
    flying.number = number;
    flying.sampled = sampled_requests(next.step->batch);
    flying.rows = scheduler_->row_tokens();
    flying.step = std::move(*next.step);
    hands_->wait_until(at(flying.step.not_before_s), "");
    hands_->announce(number, flying.step.batch, flying.rows);
  }
}

// The master's lane takes up steps when they are submitted, and a finish when its messages are
// there, whichever comes first; finishes in the order of their steps.
bool RequestServing::act() {
  const auto fresh = std::ranges::find(flying_, false, &Flying::begun);
  const bool waits = flying_.front().begun;
  if (fresh == flying_.end()) {
    const Clock::time_point until =
        std::isfinite(until_s_) ? at(until_s_) : Clock::time_point::max();
    if (!hands_->await_finish(until)) return false;
    finish(flying_.front());
    return true;
  }
  const Clock::time_point submitted = at(fresh->step.not_before_s);
  const auto there = waits ? hands_->await_finish(Clock::now()) : std::nullopt;
  if (there && *there <= submitted) {
    finish(flying_.front());
    return true;
  }
  return begin(*fresh);
}

SampleToken RequestServing::sampler(Flying& flying) {
  return [this, &flying](const Scores& scores) {
    require(flying.tokens.size() < flying.sampled.size(), "as many rows are sampled as asked for");
    Sampler& own = samplers_[flying.sampled[flying.tokens.size()]];
    flying.tokens.push_back(own.sample(scores));
    return flying.tokens.back();
  };
}

bool RequestServing::begin(Flying& flying) {
  flying.begun = true;
  const std::optional<DeviceRun::Served> done = hands_->execute(
      flying.number, flying.step.batch, flying.rows, sampler(flying), at(flying.step.not_before_s));
  if (!done) return false;
  require(&flying == &flying_.front(), "steps without a finish come one after another");
  end(flying, *done);
  return true;
}

void RequestServing::finish(Flying& flying) { end(flying, hands_->finish(sampler(flying))); }

void RequestServing::end(Flying& flying, const DeviceRun::Served& done) {
  if (flying.tokens.size() != flying.sampled.size() ||
      done.sampled_ns.size() != flying.sampled.size())
    throw Error("plan: the master samples too few tokens; make the plan again");
  if (!flying.tokens.empty()) ++sampling_steps_;
  model::ServedStep& served = served_[static_cast<std::size_t>(flying.number)];
  served.end_s = since_begin(done.end_ns);
  for (const std::int64_t at_ns : done.sampled_ns) served.sampled_s.push_back(since_begin(at_ns));
}

model::StepOutcome RequestServing::deliver() {
  const Flying flying = std::move(flying_.front());
  flying_.pop_front();
  for (std::size_t k = 0; k < flying.tokens.size(); ++k) {
    const std::size_t request = flying.sampled[k];
    const std::int32_t token = flying.tokens[k];
    tokens_[request].push_back(token);
    const auto count = static_cast<std::int64_t>(tokens_[request].size());
    hands_->on_token(request, token,
                     count == options_->requests[request].new_tokens || ends(request, token));
  }
  return {.step = flying.number, .tokens = flying.tokens};
}

std::vector<model::ScheduledStep> RequestServing::scheduled() const {
  std::vector<model::ScheduledStep> steps;
  steps.reserve(served_.size());
  for (const model::ServedStep& served : served_) steps.push_back(served.step);
  return steps;
}

std::int64_t RequestServing::steps_left() const {
  std::int64_t made = 0;
  std::int64_t left = 0;
  for (std::size_t r = 0; r < tokens_.size(); ++r) {
    const auto count = static_cast<std::int64_t>(tokens_[r].size());
    made += count;
    if (count == 0 || !ends(r, tokens_[r].back())) left += options_->requests[r].new_tokens - count;
  }
  return made == 0 ? left : (left * sampling_steps_ + made - 1) / made;
}

void RequestServing::fill(model::Result& result) const {
  planner::fill_requests(options_->requests, served_, result);
  for (std::size_t r = 0; r < tokens_.size(); ++r) result.requests[r].tokens = tokens_[r];
  if (tokens_.size() == 1) result.tokens = tokens_.front();
}

double RequestServing::since_begin(std::int64_t at_ns) const {
  return static_cast<double>(at_ns - begin_ns_) * 1e-9 / dilation_;
}

}  // namespace tandem::exec
