#pragma once

// How a request's tokens are chosen from the logits of its model.

#include <cstdint>
#include <span>
#include <string_view>

namespace tandem::planner {

struct Sampling {
  double temperature = 0.0;  // 0: greedy
  double top_p = 1.0;        // nucleus: smallest set of tokens with at least this probability
  std::uint64_t seed = 0;
  std::int64_t top_k = 0;  // number of likeliest tokens, before the nucleus; 0: all
  double min_p = 0.0;      // least probability of a token, as a part of the likeliest token's
  // Divides positive logits, and multiplies others, of tokens in prompt or answer.
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;   // subtracted from the logits of tokens in the answer
  double frequency_penalty = 0.0;  // the same, for each time that a token is there
  // Returns whether earlier tokens change logits.
  [[nodiscard]] bool penalizes() const;
  bool operator==(const Sampling&) const = default;
};

// A number of Sampling: its name, its range and its effect.
struct SamplingNumber {
  std::string_view name;  // in requests
  std::string_view flag;  // of the command line
  double Sampling::*value;
  double least;
  double most;
  bool above_least;        // `least` itself is out of range
  bool needs_temperature;  // without effect at temperature 0
  std::string_view expected;
  std::string_view help;
  // Returns whether `x` is in range; NaN never is.
  [[nodiscard]] bool allows(double x) const;
};

// Returns all numbers of Sampling: temperature first, then in the order of their effect.
[[nodiscard]] std::span<const SamplingNumber> sampling_numbers();

// Throws Error, naming value and range, for a number out of range and a negative top_k.
void check_sampling(const Sampling& sampling);

}  // namespace tandem::planner
