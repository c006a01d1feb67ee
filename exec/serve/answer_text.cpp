#include "exec/serve/answer_text.hpp"

#include <algorithm>
#include <utility>

namespace tandem::exec {
namespace {

// Returns the bytes at the end of `text` that begin `stop` without being all of it.
std::size_t begun(std::string_view text, std::string_view stop) {
  std::size_t bytes = std::min(text.size(), stop.size() - 1);
  while (bytes > 0 && !stop.starts_with(text.substr(text.size() - bytes))) --bytes;
  return bytes;
}

}  // namespace

AnswerText::AnswerText(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                       std::vector<std::string> stops, ShownToken shown)
    : decoder_(tokenizer), stops_(std::move(stops)), shown_(std::move(shown)) {
  for (const std::int32_t token : prompt) static_cast<void>(decoder_.push(token));
}

std::string AnswerText::push(std::int32_t token) {
  if (stopped_) return {};
  kept_ += decoder_.push(token);
  if (token == shown_.id) kept_ += shown_.text;
  return take(false);
}

std::string AnswerText::finish() {
  if (stopped_) return {};
  kept_ += decoder_.finish();
  return take(true);
}

std::string AnswerText::take(bool last) {
  std::size_t end = kept_.size();
  for (const std::string& stop : stops_) end = std::min(end, kept_.find(stop));
  stopped_ = std::ranges::any_of(
      stops_, [&](const std::string& stop) { return kept_.compare(end, stop.size(), stop) == 0; });
  if (!stopped_ && !last) {
    for (const std::string& stop : stops_) end = std::min(end, kept_.size() - begun(kept_, stop));
  }
  std::string text = kept_.substr(0, end);
  kept_.erase(0, end);
  return text;
}

}  // namespace tandem::exec
