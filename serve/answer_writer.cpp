#include "serve/answer_writer.hpp"

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
      open_(form_.choices) {}

void AnswerWriter::begin() {
  if (!form_.streams) return;
  reply_->begin_events();
  if (!form_.head.is_chat) return;
  for (std::size_t i = 0; i < choices_.size(); ++i) reply_->event(role_json(form_.head, i));
}

void AnswerWriter::take(std::size_t choice, const exec::AnswerPart& part) {
  if (part.is_last && part.finish == exec::Finish::failed) return fail(part.failure);
  std::vector<TokenEntry> entries;
  if (part.token.logprobs) entries.push_back(token_entry(*tokenizer_, *part.token.logprobs));
  AnswerChoice& own = choices_[choice];
  if (choice == 0) cached_ = part.cached;
  if (part.is_last) {
    own.reason = part.finish == exec::Finish::stop ? "stop" : "length";
    tokens_ += part.tokens;
    --open_;
  }
  if (form_.streams) return stream(choice, part, entries);
  own.text += part.text;
  std::ranges::move(entries, std::back_inserter(own.entries));
  if (open_ == 0)
    reply_->send(
        {.body = answer_json(form_.head, choices_, {form_.prompt_tokens, tokens_, cached_})});
}

void AnswerWriter::stream(std::size_t choice, const exec::AnswerPart& part,
                          std::span<const TokenEntry> entries) {
  // A token whose text is still incomplete has log-probabilities already.
  if (!part.text.empty() || !entries.empty())
    reply_->event(text_json(form_.head, choice, part.text, entries, characters_[choice]));
  characters_[choice] += characters_of(entries);
  if (!part.is_last) return;
  reply_->event(end_json(form_.head, choice, choices_[choice].reason));
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
