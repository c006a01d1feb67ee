#pragma once

// Requests to a deployed model, which arrive over time.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer/transformer.hpp"
#include "planner/plan/sampling.hpp"

namespace tandem::planner {

inline constexpr std::size_t kMostRequests = 10000;  // of a workload

// The next tokens of a request are the first ones of its group's text.
struct PrefixPiece {
  std::string group{};
  std::int64_t tokens = 0;
  bool operator==(const PrefixPiece&) const = default;
};

struct InferenceRequest {
  std::string id;
  double arrival_s = 0.0;          // since the run began
  std::int64_t prompt_tokens = 0;  // 0: not counted yet, as the prompt is a text
  std::int64_t new_tokens = 0;     // where it ends in a simulation; 0: one pass of an encoder
  // The most that it may generate, all that policies and admission know; absent: new_tokens.
  std::optional<std::int64_t> max_tokens{};
  // The prompt as text or as ids, for runs; predictions need neither.
  std::optional<std::string> prompt{};
  std::vector<std::int32_t> prompt_ids{};
  // Without text and ids: what prompt and answer begin with, one piece after another. The rest is
  // in no other request.
  std::vector<PrefixPiece> prefix{};
  Sampling sampling{};
  bool ignore_eos = false;
  [[nodiscard]] std::int64_t limit() const { return max_tokens.value_or(new_tokens); }
  // Returns the tokens after which a run ends the request, unless a stop token comes first.
  [[nodiscard]] std::int64_t run_tokens() const { return ignore_eos ? new_tokens : limit(); }
  // Returns the positions that the request may occupy in the cache: all tokens up to its limit but
  // the last, which is never fed back. A prompt of 10 and a limit of 4 take 13.
  [[nodiscard]] std::int64_t positions() const;
  bool operator==(const InferenceRequest&) const = default;
};

// Reads JSON lines, one request each; lines of spaces are skipped:
//   {"id": "a", "arrival_s": 0.0, "prompt": TEXT or "prompt_ids": [..] or "prompt_tokens": N,
//    "new_tokens": N, "max_tokens": N, "temperature": 0, "repetition_penalty": 1,
//    "frequency_penalty": 0, "presence_penalty": 0, "min_p": 0, "top_k": 0, "top_p": 1, "seed": 0,
//    "ignore_eos": false, "prefix": [{"group": "a", "tokens": N}, ...]}
// What follows new_tokens is optional, and prefix is for prompt_tokens alone. Returns the requests
// sorted by arrival, equal arrivals in the order of lines. Throws Error naming `source`, line,
// field, value, expected value and remedy, also for a duplicate id and for a file without requests.
[[nodiscard]] std::vector<InferenceRequest> parse_requests(std::string_view text,
                                                           std::string_view source);

// Returns `count` copies of `sample` with different names (s1, s2, ...) and, where sampling is
// random, different seeds (seed, seed + 1, ...).
[[nodiscard]] std::vector<InferenceRequest> samples_of(const InferenceRequest& sample,
                                                       std::int64_t count);

// Throws Error unless every request's prompt is counted and fits the model's context together with
// its new tokens. Models that generate need new tokens; encoders must have none.
void check_requests(const std::vector<InferenceRequest>& requests, const model::Transformer& model);

}  // namespace tandem::planner
