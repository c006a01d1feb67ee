#pragma once

// The inputs of an evaluation: JSON Lines files, and their texts as passages.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/evaluation/scores.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

// A held-out text: {"text": "..."}.
struct Document {
  std::string text;
  std::int64_t line = 0;  // of the file, from 1
};

// A test of recall, {"distance": 64, "prompt": "...", "answer": " Oslo."}: the answer follows the
// prompt without change, and the fact is `distance` tokens before it.
struct Question {
  std::int64_t distance = 0;
  std::string prompt;
  std::string answer;
  std::int64_t line = 0;
};

// Parses one object a line; other keys and blank lines are ignored. Throws Error (source, line,
// fault, expected) for anything else, and for a file without objects.
[[nodiscard]] std::vector<Document> parse_documents(std::string_view text, std::string_view source);
[[nodiscard]] std::vector<Question> parse_questions(std::string_view text, std::string_view source);

// A text's tokens, all scored but the first: the beginning-of-sequence token or, without one, the
// first token of the text, whose bytes then do not count.
struct DocumentPassage {
  Passage passage;
  std::int64_t bytes = 0;  // of the text, covered by scored tokens
};

// Returns the passage of a document. Throws Error (source, line, number of tokens, remedy) unless
// the document has 2 tokens or more and at most `context`.
[[nodiscard]] DocumentPassage passage_of(const Document& document, const Tokenizer& tokenizer,
                                         std::int64_t context, std::string_view source);
// Returns the passage of a question: prompt + answer, scored from the first token that differs from
// those of the prompt alone. Throws Error as for a document, and for an answer without a token of
// its own.
[[nodiscard]] Passage passage_of(const Question& question, const Tokenizer& tokenizer,
                                 std::int64_t context, std::string_view source);

}  // namespace tandem::exec
