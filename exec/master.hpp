#pragma once

// The device that holds the prompt: starts a session with every other device of the plan, runs the
// generation, gathers what happened.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/emulation/ledger.hpp"
#include "exec/emulation/turn.hpp"
#include "exec/evaluation/scores.hpp"
#include "exec/interrupt.hpp"
#include "exec/runtime/run_result.hpp"
#include "exec/runtime/session.hpp"
#include "exec/sampling.hpp"
#include "exec/transport/endpoint.hpp"
#include "exec/transport/key.hpp"
#include "exec/weights/move_choice.hpp"
#include "planner/plan.hpp"
#include "planner/serving/inference_request.hpp"
#include "planner/serving/policy.hpp"

namespace tandem::exec {

// The devices, and what they compute with.
struct SessionOptions {
  std::filesystem::path weights;             // Hugging Face folder
  std::filesystem::path cache_dir;           // of weight blocks
  std::optional<std::uint64_t> cache_bytes;  // at most; see BlockStore
  bool verify = false;  // hash what is cached, even if the file is one that was hashed before
  WeightPlace place = WeightPlace::copied;  // of the master; emulated: copied
  int threads = 1;
  std::vector<Endpoint> workers;  // by DeviceIndex; the master's is not used
  bool one_machine = false;       // the workers are processes of this machine: emulated devices
  std::optional<Key> key;
  std::shared_ptr<Ledger> ledger;  // emulated links; null: real ones
  std::shared_ptr<Turn> turn;      // of emulated devices, to compute; null: none have to wait
  SessionTimes times;
  // These are called one at a time, on any thread.
  // What is being done before the first step ("slicing weights for phone"), for a progress line.
  std::function<void(const std::string& stage)> on_stage;
  // What went wrong without ending the run, and what the result lacks for it.
  std::function<void(const std::string& warning)> on_warning;
  // For whom the run has been waiting for some seconds, and what that device is doing.
  std::function<void(const std::string& text)> on_notice;
};

// Many requests instead of one prompt.
struct ServeOptions {
  std::vector<planner::InferenceRequest> requests;  // by arrival, with the ids of their prompts
  const planner::Policy* policy = nullptr;
  std::int64_t chunk = 0;  // most rows of prompts in a step; 0: prompts are read whole
  std::int64_t steps = 0;  // in flight at most; 0: as many as the plan reserves memory for
  // Each token of a request as it is chosen; `last`: the request has ended.
  std::function<void(std::size_t request, std::int32_t token, bool last)> on_token;
};

struct GenerateOptions : SessionOptions {
  std::vector<std::int32_t> prompt;       // ids
  std::int64_t new_tokens = 0;            // at most; 0 of an encoder
  std::vector<std::int64_t> stop_tokens;  // ends after one of these
  SamplingOptions sampling;
  Pace pace = Pace::real;
  double dilation = 1.0;  // of emulated time; the result's times are divided by it
  bool keep_spans = false;
  // If it is there, `prompt`, `new_tokens`, `sampling` and `on_token` are not read, and
  // `stop_tokens` end a request unless it ignores them. The model generates.
  std::optional<ServeOptions> serve;
  // Each token as it is chosen; the callee may take its time only between tokens.
  std::function<void(std::int32_t token)> on_token;
  // Before that: what it was chosen from, one logit for each token of the vocabulary, whatever the
  // temperature. Of one prompt; not called for those of `serve`.
  std::function<void(std::span<const float> logits)> on_logits;
};

struct ScoreOptions : SessionOptions {
  // After each passage: how many are done.
  std::function<void(std::size_t done)> on_passage;
};

struct Generation {
  Clock::time_point ready;           // everything is in place: the first step begins
  std::vector<std::int32_t> tokens;  // of the only request; of many, their results have them
  std::vector<float> hidden;  // of an encoder instead: the last hidden states, [prompt, hidden]
  RunResult run;
  double drift = 0.0;  // of the reference kernel; measured pace only
};

// By DeviceIndex: whether it takes part in some step, so that it needs a process of its own:
// whether it exchanges anything with others, or, where rows are parted, has weights, as prompts of
// other lengths than the plan's may give it rows. False for the master.
[[nodiscard]] std::vector<bool> workers_of(const planner::Plan& plan);

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
