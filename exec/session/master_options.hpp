#pragma once

// What a master is asked for, and how it reports what happens.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/compute/sampling.hpp"
#include "exec/emulation/ledger.hpp"
#include "exec/emulation/turn.hpp"
#include "exec/grammar/token_grammar.hpp"
#include "exec/kernels/kernel_set.hpp"
#include "exec/session/device_watch.hpp"
#include "exec/session/peer_session.hpp"
#include "exec/session/request_source.hpp"
#include "exec/transport/endpoint.hpp"
#include "exec/transport/key.hpp"
#include "exec/weights/move_choice.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/serving/policy/policy.hpp"

namespace tandem::exec {

// The devices, and what they compute with.
struct SessionOptions {
  std::filesystem::path weights;             // Hugging Face folder
  std::filesystem::path cache_dir;           // of weight blocks
  std::optional<std::uint64_t> cache_bytes;  // at most; see BlockStore
  bool verify = false;  // hash what is cached, even if the file is one that was hashed before
  WeightPlace place = WeightPlace::copied;  // of the master; emulated: copied
  int threads = 1;
  KernelSet kernels = default_kernel_set();
  std::vector<Endpoint> workers;  // by DeviceIndex; the master's is not used
  bool one_machine = false;       // the workers are processes of this machine: emulated devices
  std::optional<Key> key;
  std::shared_ptr<Ledger> ledger;  // emulated links; null: real ones
  std::shared_ptr<Turn> turn;      // of emulated devices, to compute; null: none have to wait
  SessionTimes times;
  DeviceWatch* watch = nullptr;  // sees what the devices do while they work; null: none
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
  // Of requests that come and go, instead; on_token is then not called, and there is no result.
  RequestSource* source = nullptr;
  const planner::Policy* policy = nullptr;
  std::int64_t chunk = 0;        // most rows of prompts in a step; 0: prompts are read whole
  std::int64_t steps = 0;        // in flight at most; 0: as many as the plan reserves memory for
  bool shares_prefixes = false;  // as in planner::ServingOptions; the plan can
  // Of every answer to `requests`; null: any text. Those of a source have their own.
  std::shared_ptr<const TokenGrammar> grammar{};
  // One request: its text is streamed, and it may have more positions than the plan reserves.
  bool is_one = false;
  // Each token of a request as it is chosen; `last`: the request has ended.
  std::function<void(std::size_t request, std::int32_t token, bool last)> on_token;
};

struct GenerateOptions : SessionOptions {
  std::vector<std::int32_t> prompt;       // ids
  std::int64_t new_tokens = 0;            // at most; 0 of an encoder
  std::vector<std::int64_t> stop_tokens;  // ends after one of these
  SamplingOptions sampling;
  std::shared_ptr<const TokenGrammar> grammar;  // of the answer; null: any text
  Pace pace = Pace::real;
  double dilation = 1.0;  // of emulated time; the result's times are divided by it
  bool keep_spans = false;
  // If it is there, `prompt`, `new_tokens`, `sampling` and `on_token` are not read, and
  // `stop_tokens` end a request unless it ignores them. The model generates.
  std::optional<ServeOptions> serve;
  std::function<void()> on_begin;  // everything is in place, and the first step begins
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

}  // namespace tandem::exec
