#include "exec/serve/request_desk.hpp"

#include <algorithm>
#include <utility>

#include "exec/compute/sampling.hpp"
#include "planner/serving/request_scheduler.hpp"

namespace tandem::exec {

RequestDesk::RequestDesk(const Tokenizer& tokenizer, const model::Transformer& transformer,
                         std::vector<std::int64_t> stop_tokens, const DeskLimits& limits)
    : stop_tokens_(std::move(stop_tokens)),
      tokenizer_(&tokenizer),
      limits_(limits),
      most_positions_(std::min(transformer.max_context, limits.capacity.positions + 1)) {
  // Devices need to know before a session which of its sequences are rotated as long texts.
  if (transformer.rotates_long(most_positions_))
    most_positions_ = transformer.rope_scaling->original_context;
}

std::int64_t RequestDesk::most_tokens(std::int64_t prompt) const {
  if (limits_.chunk == 0 && prompt > limits_.capacity.rows) return 0;
  return most_positions_ - prompt;
}

std::int64_t RequestDesk::usual_tokens(std::int64_t prompt) const {
  constexpr std::int64_t kLeast = 512;
  const planner::Capacity& capacity = limits_.capacity;
  const std::int64_t share = capacity.positions / std::max<std::int64_t>(1, capacity.sequences);
  return std::min(most_tokens(prompt), std::max(kLeast, share - prompt));
}

std::size_t RequestDesk::most_requests() const {
  return static_cast<std::size_t>(limits_.capacity.sequences) + limits_.queue;
}

void RequestDesk::check(const LiveRequest& live) const {
  const planner::InferenceRequest& request = live.request;
  const std::int64_t most = most_tokens(request.prompt_tokens);
  if (request.prompt_tokens < 1 || request.new_tokens < 1 || request.limit() > most) {
    const std::int64_t prompt = limits_.chunk == 0
                                    ? std::min(most_positions_ - 1, limits_.capacity.rows)
                                    : most_positions_ - 1;
    throw Error(std::to_string(request.prompt_tokens) + " prompt and up to " +
                std::to_string(request.limit()) + " new tokens, expected 1 to " +
                std::to_string(prompt) + " prompt tokens, and at most " +
                std::to_string(most_positions_) +
                " together, which is what this server has memory for; shorten the prompt, or ask "
                "for fewer tokens");
  }
  planner::check_capacity({&request, 1}, limits_.chunk, limits_.capacity);
  planner::check_sampling(request.sampling);
  if (limits_.candidates == 0) return;
  const std::string sent = "the plan's devices send the best " +
                           std::to_string(limits_.candidates) + " of their logits, ";
  if (live.logprobs.value_or(0) > static_cast<std::size_t>(limits_.candidates))
    throw Error(sent + "expected log-probabilities of at most that many tokens");
  if (live.grammar) throw Error(sent + "but the form of an answer needs all");
  if (const std::string why = undecided_by(request.sampling, limits_.candidates); !why.empty())
    throw Error(sent + "but sampling " + why);
}

void RequestDesk::expect_room(std::size_t requests) {
  const std::lock_guard lock(mutex_);
  if (answers_.size() + requests <= most_requests()) return;
  ++counts_.refused;
  throw DeskFull(std::to_string(answers_.size()) +
                 " requests are served or wait, and there is "
                 "room for " +
                 std::to_string(most_requests()) + ", expected room for " +
                 std::to_string(requests) + " more; try again later");
}

std::size_t RequestDesk::submit(LiveRequest live, std::vector<std::string> stops, TakePart take,
                                ShownToken shown) {
  check(live);
  Answer answer{
      .text = AnswerText(*tokenizer_, live.request.prompt_ids, std::move(stops), std::move(shown)),
      .take = std::move(take),
      .prompt_tokens = live.request.prompt_tokens};
  const std::lock_guard lock(mutex_);
  if (!closed_.empty()) throw DeskClosed(closed_);
  if (answers_.size() >= most_requests()) {
    ++counts_.refused;
    throw DeskFull(std::to_string(answers_.size()) +
                   " requests are served or wait, expected fewer; try again later");
  }
  ++counts_.submitted;
  ++counts_.waiting;
  counts_.prompt_tokens += static_cast<std::uint64_t>(live.request.prompt_tokens);
  news_.joined.push_back(std::move(live));
  answers_.emplace(next_, std::move(answer));
  changed_.notify_all();
  return next_++;
}

void RequestDesk::cancel(std::size_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(number);
  if (found == answers_.end()) return;
  if (found->second.tokens == 0) --counts_.waiting;
  answers_.erase(found);
  ++counts_.cancelled;
  news_.left.push_back(number);
  changed_.notify_all();
}

void RequestDesk::close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!closed_.empty()) return;
  closed_ = reason;
  news_.closed = true;
  for (const auto& [number, answer] : answers_) {
    AnswerPart end;
    end.is_last = true;
    end.finish = Finish::failed;
    end.tokens = answer.tokens;
    end.failure = reason;
    answer.take(end);
  }
  answers_.clear();
  counts_.waiting = 0;
  changed_.notify_all();
}

bool RequestDesk::is_closed() const {
  const std::lock_guard lock(mutex_);
  return !closed_.empty();
}

RequestDesk::Counts RequestDesk::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.under_way = answers_.size();
  return counts;
}

void RequestDesk::serve(const planner::Plan& plan, const ExecuteOptions& options,
                        const std::function<void()>& on_ready) {
  ExecuteOptions own = options;
  own.serve.value().source = this;
  serve_requests(plan, own, on_ready);
}

RequestSource::News RequestDesk::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

void RequestDesk::await(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return news_.any(); });
}

void RequestDesk::on_begin(std::size_t request, std::int64_t cached) {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(request);
  if (found == answers_.end()) return;  // cancelled
  found->second.cached = cached;
  counts_.begun_tokens += static_cast<std::uint64_t>(found->second.prompt_tokens);
  counts_.cached_tokens += static_cast<std::uint64_t>(cached);
}

bool RequestDesk::on_token(std::size_t request, const ChosenToken& token, bool last) {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(request);
  if (found == answers_.end()) return false;  // cancelled
  Answer& answer = found->second;
  if (answer.tokens++ == 0) --counts_.waiting;
  ++counts_.tokens;
  AnswerPart part;
  part.text = answer.text.push(token.id);
  part.token = token;
  part.tokens = answer.tokens;
  part.cached = answer.cached;
  const bool is_end = std::ranges::find(stop_tokens_, token.id) != stop_tokens_.end();
  part.is_last = last || answer.text.stopped();
  if (part.is_last && !answer.text.stopped()) part.text += answer.text.finish();
  part.finish = is_end || answer.text.stopped() ? Finish::stop : Finish::length;
  answer.take(part);
  if (!part.is_last) return true;
  answers_.erase(found);
  ++counts_.finished;
  return false;
}

}  // namespace tandem::exec
