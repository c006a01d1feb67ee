#include "serve/answer_writer.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tandem::serve {

AnswerWriter::AnswerWriter(Form form, const exec::Tokenizer& tokenizer,
                           std::shared_ptr<HttpReply> reply)
    : form_(std::move(form)),
      tokenizer_(&tokenizer),
      reply_(std::move(reply)),
      choices_(form_.choices),
      characters_(form_.choices),
      open_(form_.choices) {
  if (form_.tools.form == nullptr) return;
  tools_.reserve(form_.choices);
  for (std::size_t i = 0; i < form_.choices; ++i, ++form_.tools.seed)
    tools_.emplace_back(form_.tools);
}

void AnswerWriter::begin() {
  if (!form_.streams) return;
  reply_->begin_events();
  if (!form_.head.is_chat) return;
  for (std::size_t i = 0; i < choices_.size(); ++i) reply_->event(role_json(form_.head, i));
}

ToolPiece AnswerWriter::piece_of(std::size_t choice, const exec::AnswerPart& part) {
  if (tools_.empty()) return {.text = part.text};
  ToolPiece piece = tools_[choice].push(part.text);
  if (!part.is_last) return piece;
  ToolPiece last = tools_[choice].finish();
  piece.text += last.text;
  std::ranges::move(last.calls, std::back_inserter(piece.calls));
  return piece;
}

void AnswerWriter::take(std::size_t choice, const exec::AnswerPart& part) {
  if (part.is_last && part.finish == exec::Finish::failed) return fail(part.failure);
  std::vector<TokenEntry> entries;
  if (part.token.logprobs) entries.push_back(token_entry(*tokenizer_, *part.token.logprobs));
  AnswerChoice& own = choices_[choice];
  if (choice == 0) cached_ = part.cached;
  const ToolPiece piece = piece_of(choice, part);
  if (part.is_last) {
    const bool calls = !tools_.empty() && tools_[choice].has_calls();
    own.reason = part.finish != exec::Finish::stop ? "length" : calls ? "tool_calls" : "stop";
    tokens_ += part.tokens;
    --open_;
  }
  if (form_.streams) return stream(choice, part, piece, entries);
  own.text += piece.text;
  std::ranges::copy(piece.calls, std::back_inserter(own.calls));
  std::ranges::move(entries, std::back_inserter(own.entries));
  if (open_ == 0)
    reply_->send(
        {.body = answer_json(form_.head, choices_, {form_.prompt_tokens, tokens_, cached_})});
}

void AnswerWriter::stream(std::size_t choice, const exec::AnswerPart& part, const ToolPiece& piece,
                          std::span<const TokenEntry> entries) {
  AnswerChoice& own = choices_[choice];
  // A token whose text is still incomplete has log-probabilities already.
  if (!piece.text.empty() || !entries.empty())
    reply_->event(text_json(form_.head, choice, piece.text, entries, characters_[choice]));
  if (!piece.calls.empty()) {
    reply_->event(calls_json(form_.head, choice, piece.calls, own.calls.size()));
    std::ranges::copy(piece.calls, std::back_inserter(own.calls));
  }
  characters_[choice] += characters_of(entries);
  if (!part.is_last) return;
  reply_->event(end_json(form_.head, choice, own.reason));
  if (open_ > 0) return;
  if (form_.head.includes_usage)
    reply_->event(usage_json(form_.head, {form_.prompt_tokens, tokens_, cached_}));
  reply_->event("[DONE]");
  reply_->end();
}

void AnswerWriter::fail(const std::string& reason) {
  if (!form_.streams)
    return reply_->send(
        {.status = 503, .body = error_json(503, reason), .headers = "Retry-After: 1\r\n"});
  reply_->event(error_json(503, reason));
  reply_->fail();
}

}  // namespace tandem::serve
