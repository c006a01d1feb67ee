#include "planner/plan/sampling.hpp"

#include <array>
#include <string>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"

namespace tandem::planner {
namespace {

// Ranges are those of vLLM's SamplingParams, with bounds where it has none.
constexpr std::array kNumbers{
    SamplingNumber{.name = "temperature",
                   .flag = "temperature",
                   .value = &Sampling::temperature,
                   .least = 0.0,
                   .most = 1e6,
                   .above_least = false,
                   .needs_temperature = false,
                   .expected = "a number from 0 (greedy) to 1000000; try 0.8",
                   .help = "0 takes the likeliest token [0]"},
    SamplingNumber{.name = "repetition_penalty",
                   .flag = "repetition-penalty",
                   .value = &Sampling::repetition_penalty,
                   .least = 0.0,
                   .most = 100.0,
                   .above_least = true,
                   .needs_temperature = false,
                   .expected = "above 0 and at most 100 (1: no penalty); try 1.1",
                   .help = "divides positive logits of tokens of prompt and answer, and multiplies "
                           "negative ones [1]"},
    SamplingNumber{.name = "frequency_penalty",
                   .flag = "frequency-penalty",
                   .value = &Sampling::frequency_penalty,
                   .least = -2.0,
                   .most = 2.0,
                   .above_least = false,
                   .needs_temperature = false,
                   .expected = "a number from -2 to 2 (0: no penalty)",
                   .help = "subtracted from a token's logit for each time that the answer has it "
                           "[0]"},
    SamplingNumber{.name = "presence_penalty",
                   .flag = "presence-penalty",
                   .value = &Sampling::presence_penalty,
                   .least = -2.0,
                   .most = 2.0,
                   .above_least = false,
                   .needs_temperature = false,
                   .expected = "a number from -2 to 2 (0: no penalty)",
                   .help = "subtracted from the logits of tokens that the answer has [0]"},
    SamplingNumber{.name = "min_p",
                   .flag = "min-p",
                   .value = &Sampling::min_p,
                   .least = 0.0,
                   .most = 1.0,
                   .above_least = false,
                   .needs_temperature = true,
                   .expected = "a number from 0 (all tokens) to 1; try 0.05",
                   .help = "with --temperature: from tokens with at least X times the likeliest "
                           "token's probability [0]"},
    SamplingNumber{.name = "top_p",
                   .flag = "top-p",
                   .value = &Sampling::top_p,
                   .least = 0.0,
                   .most = 1.0,
                   .above_least = true,
                   .needs_temperature = true,
                   .expected = "above 0 and at most 1 (all tokens); try 0.95",
                   .help = "with --temperature: from the likeliest of this total probability [1]"}};

}  // namespace

bool Sampling::penalizes() const {
  return repetition_penalty != 1.0 || presence_penalty != 0.0 || frequency_penalty != 0.0;
}

bool SamplingNumber::allows(double x) const {
  return x >= least && x <= most && !(above_least && x == least);
}

std::span<const SamplingNumber> sampling_numbers() { return kNumbers; }

void check_sampling(const Sampling& sampling) {
  for (const SamplingNumber& number : kNumbers) {
    const double x = sampling.*number.value;
    if (number.allows(x)) continue;
    throw Error(std::string(number.flag) + ": " + model::shortest_text(x) + ", expected " +
                std::string(number.expected));
  }
  if (sampling.top_k < 0)
    throw Error("top-k: " + std::to_string(sampling.top_k) +
                ", expected at least 1, or 0 (all tokens); try 40");
}

}  // namespace tandem::planner
