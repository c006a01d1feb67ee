#include "exec/serve/text_desk.hpp"

#include <algorithm>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::exec {

std::size_t TextDesk::submit(std::vector<Text> texts, TakeEmbedding take) {
  std::uint64_t tokens = 0;
  for (const Text& text : texts) {
    require(!text.empty() && std::ssize(text) <= limits_.tokens, "TextDesk: texts that fit");
    tokens += text.size();
  }
  require(!texts.empty(), "TextDesk: a text");
  const std::lock_guard lock(mutex_);
  if (!closed_.empty()) throw DeskClosed(closed_);
  if (requests_.size() > limits_.queue) {
    ++counts_.refused;
    throw DeskFull(std::to_string(requests_.size()) +
                   " requests are served or wait, expected fewer; try again later");
  }
  ++counts_.submitted;
  counts_.prompt_tokens += tokens;
  requests_.emplace(next_, Texts{.texts = std::move(texts), .take = std::move(take)});
  changed_.notify_all();
  return next_++;
}

void TextDesk::cancel(std::size_t number) {
  const std::lock_guard lock(mutex_);
  if (requests_.erase(number) > 0) ++counts_.cancelled;
}

void TextDesk::close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!closed_.empty()) return;
  closed_ = reason;
  for (const auto& [number, request] : requests_)
    request.take({.text = request.done, .failure = reason});
  requests_.clear();
  changed_.notify_all();
}

bool TextDesk::is_closed() const {
  const std::lock_guard lock(mutex_);
  return !closed_.empty();
}

ServiceDesk::Counts TextDesk::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.under_way = requests_.size();
  counts.waiting = requests_.size() - (requests_.empty() ? 0 : 1);
  return counts;
}

void TextDesk::serve(const planner::Plan& plan, const ExecuteOptions& options,
                     const std::function<void()>& on_ready) {
  serve_texts(plan, options, *this, limits_.tokens, on_ready);
}

std::optional<TextDesk::Text> TextDesk::next_text() {
  const std::lock_guard lock(mutex_);
  if (requests_.empty()) return std::nullopt;
  const auto& [number, request] = *requests_.begin();
  served_ = number;
  counts_.begun_tokens += request.texts[request.done].size();
  return request.texts[request.done];
}

void TextDesk::await_text(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return !closed_.empty() || !requests_.empty(); });
}

void TextDesk::on_hidden(std::span<const float> states) {
  std::vector<float> vector = unit_vector(limits_.pooling->pool(states, limits_.width));
  const std::lock_guard lock(mutex_);
  const auto found = requests_.find(served_.value());
  if (found == requests_.end()) return;  // cancelled, or closed
  Texts& request = found->second;
  request.take({.text = request.done++, .vector = std::move(vector)});
  if (request.done < request.texts.size()) return;
  requests_.erase(found);
  ++counts_.finished;
}

}  // namespace tandem::exec
