#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::serve {

// Times of one request. `ttft_s`: from its arrival to its first token; `token_latency_s`: mean gap
// between its tokens, absent for fewer than two.
struct RequestTimes {
  std::int64_t prompt_tokens = 0;
  std::int64_t new_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt, which were not read
  double ttft_s = 0.0;
  std::optional<double> token_latency_s{};
  // By device, the share of its time in which the processor computes; empty: not known.
  std::vector<double> busy{};
  bool shared = false;  // whether other requests were open at its arrival or at its end
};

}  // namespace tandem::serve
