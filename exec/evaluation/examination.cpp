#include "exec/evaluation/examination.hpp"

#include <cmath>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::exec {

Examination make_examination(const std::optional<QuestionSource>& documents,
                             const std::optional<QuestionSource>& questions,
                             const Tokenizer& tokenizer, std::int64_t context, std::int64_t limit) {
  Examination exam;
  if (documents) {
    for (const Document& document : parse_documents(documents->contents, documents->path)) {
      if (static_cast<std::int64_t>(exam.documents) == limit) break;
      DocumentPassage made = passage_of(document, tokenizer, context, documents->path);
      exam.passages.push_back(std::move(made.passage));
      exam.bytes += made.bytes;
      ++exam.documents;
    }
    if (exam.bytes <= 0)
      throw Error(documents->path + ": no bytes to score, expected longer documents");
  }
  if (questions) {
    std::map<std::int64_t, std::int64_t> asked;  // by distance
    for (const Question& question : parse_questions(questions->contents, questions->path)) {
      if (asked[question.distance]++ >= limit) continue;
      exam.passages.push_back(passage_of(question, tokenizer, context, questions->path));
      exam.distances.push_back(question.distance);
    }
  }
  return exam;
}

double ExaminationScores::perplexity() const {
  return std::exp2(bits / static_cast<double>(tokens));
}

Recall ExaminationScores::total() const {
  Recall sum;
  for (const auto& [distance, at] : recall) {
    sum.questions += at.questions;
    sum.right += at.right;
  }
  return sum;
}

ExaminationScores summarize(const Examination& examination,
                            const std::vector<PassageScores>& scored) {
  ExaminationScores scores{.documents = examination.documents, .bytes = examination.bytes};
  for (std::size_t i = 0; i < scored.size(); ++i) {
    if (i < examination.documents) {
      scores.tokens += static_cast<std::int64_t>(scored[i].size());
      scores.bits += bits_of(scored[i]);
    } else {
      Recall& at = scores.recall[examination.distances[i - examination.documents]];
      ++at.questions;
      if (all_first_choices(scored[i])) ++at.right;
    }
  }
  return scores;
}

}  // namespace tandem::exec
