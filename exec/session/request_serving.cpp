#include "exec/session/request_serving.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "model/base/error.hpp"
#include "planner/serving/prefix_sharing.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"

namespace tandem::exec {
namespace {

// How long a wait for messages of a step in flight goes on before the source is asked for news.
constexpr std::chrono::milliseconds kNewsEvery{2};

}  // namespace

RequestServing::RequestServing(const ServeOptions& options, std::vector<std::int64_t> stop_tokens,
                               const planner::Capacity& capacity, double dilation,
                               planner::CachePlaces places)
    : options_(&options),
      stop_tokens_(std::move(stop_tokens)),
      capacity_(capacity),
      places_(std::move(places)),
      dilation_(dilation),
      closed_(options.source == nullptr) {
  for (const planner::InferenceRequest& request : options.requests)
    add({.request = request, .logprobs = {}, .grammar = options.grammar});
}

void RequestServing::add(LiveRequest joined) {
  Sampler sampler(joined.request.sampling, joined.request.prompt_ids, std::move(joined.grammar));
  requests_.emplace(added_++,
                    std::make_shared<Request>(Request{.request = std::move(joined.request),
                                                      .sampler = std::move(sampler),
                                                      .logprobs = joined.logprobs}));
}

bool RequestServing::ends(const Request& request, std::int32_t token) const {
  return std::ssize(request.tokens) == request.request.run_tokens() ||
         (!request.request.ignore_eos &&
          std::ranges::find(stop_tokens_, token) != stop_tokens_.end());
}

Clock::time_point RequestServing::at(double seconds) const {
  const std::chrono::duration<double> after(seconds * dilation_);
  if (after >= Clock::time_point::max() - begin_) return Clock::time_point::max();
  return begin_ + std::chrono::duration_cast<Clock::duration>(after);
}

double RequestServing::present() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count() / dilation_;
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
  planner::RequestScheduler scheduler(options_->requests, *options_->policy,
                                      {.chunk = options_->chunk,
                                       .capacity = capacity_,
                                       .ends =
                                           [this](std::size_t request, std::int32_t /*token*/) {
                                             const auto found = requests_.find(request);
                                             return found == requests_.end() || found->second->over;
                                           },
                                       .shares_prefixes = options_->shares_prefixes,
                                       .places = places_});
  scheduler_ = &scheduler;
  hands_ = &hands;
  static_cast<void>(receive());
  ask(now_, {});
  while (!closed_ || !flying_.empty() || std::isfinite(until_s_)) {
    if (receive()) {
      ask(now_, {});
    } else if (flying_.empty()) {
      if (!closed_) {
        hands.await_news();
        continue;
      }
      now_ = until_s_;
      hands.wait_until(at(now_), arriving(now_));
      ask(now_, {});
    } else if (act()) {
      const model::ServedStep& done = flying_.front().step;
      const double time = done.sampled_s.empty() ? done.end_s : done.sampled_s.back();
      // What it wanted to be asked for before that.
      for (; until_s_ < time; ask(now_, {})) now_ = std::max(now_, until_s_);
      now_ = std::max(now_, time);
      const model::StepOutcome outcome = deliver();
      ask(now_, {&outcome, 1});
      hands.after_step(outcome.step);
    } else if (std::isfinite(until_s_) && Clock::now() >= at(until_s_)) {
      now_ = std::max(now_, until_s_);
      ask(now_, {});
    }
  }
}

bool RequestServing::receive() {
  if (closed_) return false;
  RequestSource::News news = options_->source->take();
  if (!news.any()) return false;
  now_ = std::max(now_, present());
  for (LiveRequest& joined : news.joined) {
    joined.request.arrival_s = now_;
    add(joined);
    scheduler_->join(std::move(joined.request));
  }
  closed_ = news.closed;
  if (closed_) {
    for (const auto& [number, request] : requests_) news.left.push_back(number);
  }
  for (const std::size_t number : news.left) {
    const auto found = requests_.find(number);
    if (found == requests_.end()) continue;  // it has ended
    found->second->over = true;
    requests_.erase(found);
    scheduler_->leave(number);
  }
  return true;
}

void RequestServing::ask(double now, std::span<const model::StepOutcome> ended) {
  while (true) {
    model::Decision next = scheduler_->next(now, ended);
    ended = {};
    until_s_ = next.until_s;
    if (!next.step) return;
    Flying& flying = flying_.emplace_back();
    flying.number = steps_++;
    for (const model::Segment& segment : next.step->batch.segments) {
      const auto request = static_cast<std::size_t>(segment.sequence);
      if (segment.sampled > 0) flying.sampled.emplace_back(request, requests_.at(request));
    }
    report_begun(next.step->batch);
    flying.rows = scheduler_->row_tokens();
    flying.step.step = std::move(*next.step);
    hands_->wait_until(at(flying.step.step.not_before_s), "");
    hands_->announce(flying.number, flying.step.step.batch, flying.rows);
  }
}

void RequestServing::report_begun(const model::Batch& batch) {
  if (options_->source == nullptr) return;
  for (const model::Segment& segment : batch.segments) {
    const auto number = static_cast<std::size_t>(segment.sequence);
    const auto found = requests_.find(number);
    if (found == requests_.end() || std::exchange(found->second->begun, true)) continue;
    options_->source->on_begin(number, segment.past);
  }
}

// The master's lane takes up steps when they are submitted, and a finish when its messages are
// there, whichever comes first; finishes in the order of their steps.
bool RequestServing::act() {
  const auto fresh = std::ranges::find(flying_, false, &Flying::begun);
  const bool waits = flying_.front().begun;
  if (fresh == flying_.end()) {
    Clock::time_point until = std::isfinite(until_s_) ? at(until_s_) : Clock::time_point::max();
    if (!closed_) until = std::min(until, Clock::now() + kNewsEvery);
    if (!hands_->await_finish(until)) return false;
    finish(flying_.front());
    return true;
  }
  const Clock::time_point submitted = at(fresh->step.step.not_before_s);
  const auto there = waits ? hands_->await_finish(Clock::now()) : std::nullopt;
  if (there && *there <= submitted) {
    finish(flying_.front());
    return true;
  }
  return begin(*fresh);
}

SampleToken RequestServing::sampler(Flying& flying) {
  return [&flying](const Scores& scores) {
    require(flying.tokens.size() < flying.sampled.size(), "as many rows are sampled as asked for");
    const std::size_t place = flying.tokens.size();
    Request& request = *flying.sampled[place].second;
    flying.tokens.push_back(request.sampler.sample(scores));
    if (request.logprobs)
      flying.logprobs.emplace(place, logprobs_of(scores, flying.tokens.back(), *request.logprobs));
    return flying.tokens.back();
  };
}

bool RequestServing::begin(Flying& flying) {
  flying.begun = true;
  const model::ScheduledStep& step = flying.step.step;
  const std::optional<DeviceRun::Served> done = hands_->execute(
      flying.number, step.batch, flying.rows, sampler(flying), at(step.not_before_s));
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
  flying.step.end_s = since_begin(done.end_ns);
  for (const std::int64_t at_ns : done.sampled_ns)
    flying.step.sampled_s.push_back(since_begin(at_ns));
}

model::StepOutcome RequestServing::deliver() {
  Flying flying = std::move(flying_.front());
  flying_.pop_front();
  RequestSource* const source = options_->source;
  if (source == nullptr) served_.push_back(std::move(flying.step));
  for (std::size_t k = 0; k < flying.tokens.size(); ++k) {
    const auto& [number, request] = flying.sampled[k];
    const std::int32_t token = flying.tokens[k];
    if (request->over) continue;  // it has left since
    request->tokens.push_back(token);
    ++made_;
    request->over = ends(*request, token);
    if (source == nullptr) {
      hands_->on_token(number, token, request->over);
      continue;
    }
    ChosenToken chosen{.id = token};
    if (const auto found = flying.logprobs.find(k); found != flying.logprobs.end())
      chosen.logprobs = std::move(found->second);
    if (!source->on_token(number, chosen, request->over)) request->over = true;
    if (request->over) requests_.erase(number);
  }
  return {.step = flying.number, .tokens = std::move(flying.tokens)};
}

std::vector<model::ScheduledStep> RequestServing::scheduled() const {
  std::vector<model::ScheduledStep> steps;
  steps.reserve(served_.size());
  for (const model::ServedStep& served : served_) steps.push_back(served.step);
  return steps;
}

std::int64_t RequestServing::steps_left() const {
  std::int64_t left = 0;
  for (const auto& [number, request] : requests_) {
    if (!request->over) left += request->request.run_tokens() - std::ssize(request->tokens);
  }
  return made_ == 0 ? left : (left * sampling_steps_ + made_ - 1) / made_;
}

void RequestServing::fill(model::Result& result) const {
  planner::fill_requests(options_->requests, served_, result);
  if (options_->shares_prefixes) planner::set_prefix_hits(result);
  for (const auto& [number, request] : requests_) result.requests[number].tokens = request->tokens;
  if (requests_.size() == 1) result.tokens = requests_.begin()->second->tokens;
}

double RequestServing::since_begin(std::int64_t at_ns) const {
  return static_cast<double>(at_ns - begin_ns_) * 1e-9 / dilation_;
}

}  // namespace tandem::exec
