#pragma once

// The text of an answer as its tokens come, up to a stop text.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

// A special token, which has no text of its own, that a text shows.
struct ShownToken {
  std::int32_t id = -1;  // below 0: none
  std::string text{};
};

// Text that may be the beginning of a stop text is kept back until that is decided.
class AnswerText {
 public:
  // The text continues `prompt`, which is not part of it. `stops` are not empty. `tokenizer`
  // outlives this.
  AnswerText(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
             std::vector<std::string> stops, ShownToken shown = {});

  // Returns the text that is known after the next token; nothing more once stopped().
  [[nodiscard]] std::string push(std::int32_t token);
  // Returns the text that was kept back. Call once, after the last token.
  [[nodiscard]] std::string finish();
  // Whether a stop text came: it and what follows are not part of the text.
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  [[nodiscard]] std::string take(bool last);

  StreamingDecoder decoder_;
  std::vector<std::string> stops_;
  ShownToken shown_;
  std::string kept_;
  bool stopped_ = false;
};

}  // namespace tandem::exec
