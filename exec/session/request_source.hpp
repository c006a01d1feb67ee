#pragma once

// Requests that come and go while a session serves them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "exec/compute/logprobs.hpp"
#include "exec/grammar/token_grammar.hpp"
#include "exec/transport/transport.hpp"
#include "planner/plan/inference_request.hpp"

namespace tandem::exec {

struct LiveRequest {
  planner::InferenceRequest request{};  // with token ids; its arrival_s is not read
  // Log-probabilities of its tokens, and of this number of likeliest ones; absent: none.
  std::optional<std::size_t> logprobs{};
  std::shared_ptr<const TokenGrammar> grammar{};  // of the answer; null: any text
};

struct ChosenToken {
  std::int32_t id = 0;
  std::optional<TokenLogprobs> logprobs{};  // if the request asks for them
};

// Asked by the thread that serves, between steps. Requests are numbered from 0 in the order in
// which take() returns them.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  struct News {
    std::vector<LiveRequest> joined{};  // within the capacity that is served
    std::vector<std::size_t> left{};    // requests that are not wanted any more
    bool closed = false;                // serving ends; what is under way is abandoned
    [[nodiscard]] bool any() const { return closed || !joined.empty() || !left.empty(); }
  };
  // Returns what is new since the last call.
  [[nodiscard]] virtual News take() = 0;
  // Waits until there is something new, until `deadline` at the latest.
  virtual void await(Clock::time_point deadline) = 0;
  // The first rows of a request are submitted, after `cached` tokens of its prompt that are not
  // read again.
  virtual void on_begin(std::size_t request, std::int64_t cached) = 0;
  // The next token of a request; `last`: the request ends with it. Returns whether it is to go on.
  [[nodiscard]] virtual bool on_token(std::size_t request, const ChosenToken& token, bool last) = 0;
};

}  // namespace tandem::exec
