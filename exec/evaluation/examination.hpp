#pragma once

// An evaluation as a whole: the passages for a model, and the summary of its scores.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exec/evaluation/questions.hpp"
#include "exec/evaluation/scores.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

// A file that was read.
struct QuestionSource {
  std::string path;
  std::string contents;
};

// The passages of documents, then those of questions.
struct Examination {
  std::vector<Passage> passages;
  std::size_t documents = 0;
  std::int64_t bytes = 0;               // of the documents
  std::vector<std::int64_t> distances;  // of the questions, in order
};

// Returns the first `limit` documents, and as many questions of each distance. Throws Error as
// parse_documents() and passage_of() do, and for documents without a byte to score.
[[nodiscard]] Examination make_examination(const std::optional<QuestionSource>& documents,
                                           const std::optional<QuestionSource>& questions,
                                           const Tokenizer& tokenizer, std::int64_t context,
                                           std::int64_t limit);

struct Recall {
  std::int64_t questions = 0;
  std::int64_t right = 0;
  [[nodiscard]] double accuracy() const {
    return static_cast<double>(right) / static_cast<double>(questions);
  }
};

// The summary of the scores of an examination's passages.
struct ExaminationScores {
  std::size_t documents = 0;
  std::int64_t bytes = 0;
  std::int64_t tokens = 0;                  // of the documents, scored
  double bits = 0.0;                        // an ideal compressor's size of them
  std::map<std::int64_t, Recall> recall{};  // by distance

  [[nodiscard]] double bits_per_byte() const { return bits / static_cast<double>(bytes); }
  [[nodiscard]] double perplexity() const;  // 2^(bits / tokens)
  [[nodiscard]] Recall total() const;       // of all distances
};

// `scored`: one for each passage, in order.
[[nodiscard]] ExaminationScores summarize(const Examination& examination,
                                          const std::vector<PassageScores>& scored);

}  // namespace tandem::exec
