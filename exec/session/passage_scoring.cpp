// What a plan expects after every token of given texts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/session/master.hpp"
#include "exec/session/master_session.hpp"
#include "model/base/error.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::exec {
namespace {

PassageScores score_passage(MasterSession& session, std::int32_t i, const Passage& passage) {
  session.check();
  const std::vector<std::int32_t> rows(passage.tokens.begin(), passage.tokens.end() - 1);
  const model::Batch batch =
      planner::scored_batch(static_cast<std::int32_t>(rows.size()), passage.scored);
  session.announce(i, batch, rows);
  PassageScores scores;
  auto expected = passage.tokens.end() - passage.scored;
  session.device().read(i, batch, rows, [&](std::span<const float> logits) {
    require(expected != passage.tokens.end(), "as many rows are sampled as asked for");
    scores.push_back(score_token(logits, *expected));
    return *expected++;
  });
  require(expected == passage.tokens.end(), "as many rows are sampled as asked for");
  return scores;
}

}  // namespace

std::vector<PassageScores> score(const planner::Plan& plan, const ScoreOptions& options,
                                 const std::vector<Passage>& passages, Interrupt& interrupt) {
  if (!plan.model.architecture().generates()) {
    throw Error("model " + plan.model.name +
                ": an encoder, expected a model that continues texts; its hidden states come from "
                "'tandem run --hidden'");
  }
  require_logits(plan, "a score is of all logits");
  std::size_t longest = 0;
  std::int32_t most_scored = 0;
  for (const Passage& passage : passages) {
    const std::size_t tokens = passage.tokens.size();
    if (passage.scored < 1 || static_cast<std::size_t>(passage.scored) >= tokens) {
      throw Error("passage of " + std::to_string(tokens) +
                  " tokens: " + std::to_string(passage.scored) +
                  " scored, expected at least 1, and a token before them; lengthen it");
    }
    for (const std::int32_t token : passage.tokens) {
      if (0 <= token && token < plan.model.vocab) continue;
      throw Error("token " + std::to_string(token) + ": expected 0 to " +
                  std::to_string(plan.model.vocab - 1) +
                  ", the model's vocabulary; use the model's own tokenizer");
    }
    // Refuses lengths that the plan is not for.
    (void)planner::GenerationSteps(
        plan, {.prompt_tokens = static_cast<std::int64_t>(tokens) - 1, .new_tokens = 1});
    longest = std::max(longest, tokens);
    most_scored = std::max(most_scored, passage.scored);
  }
  if (passages.empty()) return {};
  const RunOptions run{
      .workload = {.prompt_tokens = static_cast<std::int64_t>(longest) - 1, .new_tokens = 1},
      .scored_rows = most_scored};
  MasterSession session(plan, options, run, interrupt);
  return session.run([&] {
    session.voice().stage("");
    std::vector<PassageScores> scores;
    for (std::size_t i = 0; i < passages.size(); ++i) {
      scores.push_back(score_passage(session, static_cast<std::int32_t>(i), passages[i]));
      if (options.on_passage) session.voice().with([&] { options.on_passage(i + 1); });
    }
    return scores;
  });
}

}  // namespace tandem::exec
