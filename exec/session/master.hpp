#pragma once

// The device that holds the prompt: starts a session with every other device of the plan, runs the
// generation, gathers what happened.

#include <cstdint>
#include <string>
#include <vector>

#include "exec/evaluation/scores.hpp"
#include "exec/runtime/run_result.hpp"
#include "exec/session/interrupt.hpp"
#include "exec/session/master_options.hpp"
#include "exec/session/plan_workers.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::exec {

struct Generation {
  Clock::time_point ready;           // everything is in place: the first step begins
  std::vector<std::int32_t> tokens;  // of the only request; of many, their results have them
  std::vector<float> hidden;  // of an encoder instead: the last hidden states, [prompt, hidden]
  RunResult run;
  double drift = 0.0;  // of the reference kernel; measured pace only
};

// Throws Error where what the devices of `plan` send of their logits does not decide all that
// `options` asks for: with candidates (Plan::candidates) that are too few for how tokens are drawn,
// or where all logits are asked for.
void check_candidates(const planner::Plan& plan, const GenerateOptions& options);
// Likewise, for what needs the logits of all tokens: `what`, with a verb.
void require_logits(const planner::Plan& plan, const std::string& what);

// Throws Error for what `options` asks for and `plan` is not for: a prompt and new tokens of other
// lengths than its strategy can compute, many requests where it is for one, more steps in flight or
// longer requests than it reserves memory for. To be called before any device is started for it.
void check_requests(const planner::Plan& plan, const GenerateOptions& options);

// Runs `plan`: a generation, or the one pass of an encoder. A device that is silent fails the run
// in seconds, one that is at work may take as long as it takes. Throws Error with one reason, which
// every reachable device has been told; no thread and no connection is left behind. Once the last
// token is there nothing is an error any more: of a device that is lost then, the result lacks the
// times (on_warning).
[[nodiscard]] Generation generate(const planner::Plan& plan, const GenerateOptions& options,
                                  Interrupt& interrupt);

// What `plan` expects after every token of each passage: one score for each of its scored tokens.
// The prompt phase of the plan's strategy computes it, whatever that leaves out or rounds; true
// tokens go in everywhere (teacher forcing), so greedy decoding would yield a run of tokens exactly
// if each is its position's first choice. Weights are loaded once. Throws as generate() does, and
// for a passage without scored tokens or longer than the model's context.
[[nodiscard]] std::vector<PassageScores> score(const planner::Plan& plan,
                                               const ScoreOptions& options,
                                               const std::vector<Passage>& passages,
                                               Interrupt& interrupt);

}  // namespace tandem::exec
