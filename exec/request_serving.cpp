#include "exec/request_serving.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "model/error.hpp"
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
    samplers_.emplace_back(SamplingOptions{
        .temperature = request.temperature, .top_p = request.top_p, .seed = request.seed});
  }
}

bool RequestServing::ends(std::size_t request, std::int32_t token) const {
  return !options_->requests[request].ignore_eos &&
         std::ranges::find(stop_tokens_, token) != stop_tokens_.end();
}

void RequestServing::run(Clock::time_point begin, const ServingHands& hands) {
  begin_ns_ =
      std::chrono::duration_cast<std::chrono::nanoseconds>(begin.time_since_epoch()).count();
  planner::RequestScheduler scheduler(
      options_->requests, *options_->policy,
      {.chunk = options_->chunk,
       .capacity = capacity_,
       .ends = [this](std::size_t request, std::int32_t token) { return ends(request, token); }});
  std::vector<model::StepOutcome> ended;
  double now = 0.0;
  std::int32_t number = 0;
  const auto at = [&](double seconds) {
    return begin + std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>(seconds * dilation_));
  };
  while (true) {
    const model::Decision next = scheduler.next(now, ended);
    ended.clear();
    if (!next.step) {
      if (!std::isfinite(next.until_s)) return;
      now = next.until_s;
      hands.wait_until(at(now));
      continue;
    }
    ended.push_back({.step = number,
                     .tokens = step(number, *next.step, scheduler.row_tokens(),
                                    at(next.step->not_before_s), hands)});
    const model::ServedStep& done = served_.back();
    now = std::max(now, done.sampled_s.empty() ? done.end_s : done.sampled_s.back());
    hands.after_step(number++);
  }
}

std::vector<std::int32_t> RequestServing::step(std::int32_t number,
                                               const model::ScheduledStep& step,
                                               const std::vector<std::int32_t>& rows,
                                               Clock::time_point not_before,
                                               const ServingHands& hands) {
  const std::vector<std::size_t> sampled = sampled_requests(step.batch);
  hands.announce(number, step.batch, rows);
  std::vector<std::int32_t> tokens;
  tokens.reserve(sampled.size());
  const SampleToken sample = [&](std::span<const float> logits) {
    require(tokens.size() < sampled.size(), "as many rows are sampled as asked for");
    tokens.push_back(samplers_[sampled[tokens.size()]].sample(logits));
    return tokens.back();
  };
  const DeviceRun::Served done = hands.execute(number, step.batch, rows, sample, not_before);
  if (tokens.size() != sampled.size() || done.sampled_ns.size() != sampled.size())
    throw Error("plan: the master samples too few tokens; make the plan again");
  model::ServedStep served{.step = step, .sampled_s = {}, .end_s = since_begin(done.end_ns)};
  served.sampled_s.reserve(done.sampled_ns.size());
  for (const std::int64_t at_ns : done.sampled_ns) served.sampled_s.push_back(since_begin(at_ns));
  served_.push_back(std::move(served));
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    const std::size_t request = sampled[k];
    tokens_[request].push_back(tokens[k]);
    const auto count = static_cast<std::int64_t>(tokens_[request].size());
    hands.on_token(request, tokens[k],
                   count == options_->requests[request].new_tokens || ends(request, tokens[k]));
  }
  return tokens;
}

std::vector<model::ScheduledStep> RequestServing::scheduled() const {
  std::vector<model::ScheduledStep> steps;
  steps.reserve(served_.size());
  for (const model::ServedStep& served : served_) steps.push_back(served.step);
  return steps;
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
