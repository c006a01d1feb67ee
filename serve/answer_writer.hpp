#pragma once

// One answer of the API as it is generated: whole, or a stream of events.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/serve/request_desk.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "serve/api_answer.hpp"
#include "serve/http_exchange.hpp"
#include "serve/tool_text.hpp"

namespace tandem::serve {

// Used on the server's thread only.
class AnswerWriter {
 public:
  struct Form {
    AnswerHead head{};
    std::int64_t prompt_tokens = 0;
    std::size_t choices = 1;
    bool streams = false;
    // How calls of tools are found; without a form: they are not.
    ToolTextOptions tools{};
  };
  // `tokenizer` outlives it.
  AnswerWriter(Form form, const exec::Tokenizer& tokenizer, std::shared_ptr<HttpReply> reply);

  // Begins the stream, if it is one.
  void begin();
  // More of a choice. After the last part of the last choice the answer is complete.
  void take(std::size_t choice, const exec::AnswerPart& part);
  [[nodiscard]] std::int64_t prompt_tokens() const { return form_.prompt_tokens; }

 private:
  // What is known of a choice after more of it.
  ToolPiece piece_of(std::size_t choice, const exec::AnswerPart& part);
  void fail(const std::string& reason);
  void stream(std::size_t choice, const exec::AnswerPart& part, const ToolPiece& piece,
              std::span<const TokenEntry> entries);

  Form form_;
  const exec::Tokenizer* tokenizer_;
  std::shared_ptr<HttpReply> reply_;
  std::vector<AnswerChoice> choices_;
  std::vector<ToolText> tools_;           // of each choice; empty: calls are not found
  std::vector<std::int64_t> characters_;  // of the tokens of each choice that were streamed
  std::size_t open_;                      // choices that go on
  std::int64_t tokens_ = 0;
  std::int64_t cached_ = 0;  // of the prompt, as the first choice read it
};

}  // namespace tandem::serve
