// The steps of sampling against an independent implementation of vLLM's definitions (Python), and
// against closed forms.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "exec/compute/min_p.hpp"
#include "exec/compute/penalties.hpp"
#include "exec/compute/sampling.hpp"
#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::samplers_test {
namespace {

using testing::error_of;
using testing::has;
using Tokens = std::vector<std::int32_t>;

// Fifty logits from -1.5 to 2.25, many of them equal.
std::vector<float> grid() {
  std::vector<float> logits(50);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = 0.375F * static_cast<float>((i * 7) % 11) - 1.5F;
  return logits;
}

Tokens sixteen(const SamplingOptions& options, const Tokens& prompt) {
  Sampler sampler(options, prompt);
  Tokens tokens(16);
  for (std::int32_t& token : tokens) token = sampler.sample(grid());
  return tokens;
}

TEST_CASE("exec/samplers: all steps together draw what vLLM's definitions draw") {
  // From a mt19937-64 and the steps of vLLM's sampler, written in Python independently of these.
  const SamplingOptions all{.temperature = 0.8,
                            .top_p = 0.9,
                            .seed = 2024,
                            .min_p = 0.1,
                            .repetition_penalty = 1.3,
                            .presence_penalty = 0.5,
                            .frequency_penalty = 0.25};
  CHECK(sixteen(all, {3, 17, 22}) ==
        Tokens{39, 42, 36, 47, 14, 25, 26, 1, 3, 12, 34, 45, 39, 36, 6, 9});
  SamplingOptions best = all;
  best.temperature = 1.2;
  best.seed = 7;
  best.top_k = 20;
  best.min_p = 0.2;
  CHECK(sixteen(best, {3, 17, 22}) ==
        Tokens{31, 34, 25, 23, 36, 14, 14, 36, 28, 12, 25, 17, 3, 39, 48, 9});
  const SamplingOptions rewards{.temperature = 1.2,
                                .seed = 7,
                                .repetition_penalty = 0.8,
                                .presence_penalty = -1.0,
                                .frequency_penalty = -0.25};
  CHECK(sixteen(rewards, {3, 17, 22}) ==
        Tokens{36, 47, 6, 47, 6, 3, 47, 47, 6, 42, 45, 36, 23, 14, 47, 14});
  CHECK(sixteen({.temperature = 1.5, .seed = 11, .min_p = 0.3}, {}) ==
        Tokens{6, 37, 17, 36, 3, 14, 45, 34, 25, 42, 14, 3, 45, 17, 14, 14});
  // Greedy: over penalised logits.
  const SamplingOptions greedy{
      .repetition_penalty = 1.3, .presence_penalty = 0.5, .frequency_penalty = 0.25};
  CHECK(sixteen(greedy, {3, 17, 22}) ==
        Tokens{14, 25, 36, 47, 6, 28, 39, 3, 9, 20, 31, 42, 17, 1, 12, 23});
}

TEST_CASE("exec/samplers: repetition divides and multiplies, frequency and presence subtract") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> logits{3.0F, -2.0F, 0.0F, 5.0F, -kInfinity, 1.0F};
  Penalties penalties(
      {.repetition_penalty = 2.0, .presence_penalty = 0.5, .frequency_penalty = 0.25},
      Tokens{0, 1, 2, 4, 0});
  const auto with = [&] {
    const std::span<const float> all = penalties.apply(logits);
    return std::vector<float>(all.begin(), all.end());
  };
  SUBCASE("a prompt: 3/2, -2*2, 0, -inf, without what only answers have") {
    CHECK(with() == std::vector<float>{1.5F, -4.0F, 0.0F, 5.0F, -kInfinity, 1.0F});
  }
  SUBCASE("an answer of 3, 3, 1: 5/2 - 2*0.25 - 0.5, -2*2 - 0.25 - 0.5") {
    for (const std::int32_t token : {3, 3, 1}) penalties.add(token);
    CHECK(with() == std::vector<float>{1.5F, -4.75F, 0.0F, 1.5F, -kInfinity, 1.0F});
  }
  SUBCASE("without repetition the prompt has no effect") {
    Penalties late({.presence_penalty = 0.5}, Tokens{0, 1, 2});
    CHECK(std::ranges::equal(late.apply(logits), logits));
  }
}

TEST_CASE("exec/samplers: min-p keeps tokens of at least its part of the likeliest") {
  const auto left = [](double min_p) {
    std::vector<WeightedToken> tokens{{0, 0.5}, {1, 1.0}, {2, 0.25}, {3, 0.125}};
    const double total = keep_probable(tokens, min_p);
    std::set<std::int32_t> ids;
    double sum = 0.0;
    for (const WeightedToken& token : tokens) {
      ids.insert(token.id);
      sum += token.weight;
    }
    CHECK(total == sum);
    return ids;
  };
  CHECK(left(1.0) == std::set<std::int32_t>{1});
  CHECK(left(0.5) == std::set<std::int32_t>{0, 1});
  CHECK(left(0.26) == std::set<std::int32_t>{0, 1});
  CHECK(left(0.125) == std::set<std::int32_t>{0, 1, 2, 3});
  // After the temperature: weights of 1 and 1/2 at temperature 1 are 1 and 1/sqrt(2) at 2.
  const std::vector<float> logits{0.0F, std::log(0.5F)};
  const auto drawn = [&](double temperature) {
    Sampler sampler({.temperature = temperature, .seed = 1, .min_p = 0.6});
    std::set<std::int32_t> ids;
    for (int i = 0; i < 200; ++i) ids.insert(sampler.sample(logits));
    return ids.size();
  };
  CHECK(drawn(1.0) == 1);
  CHECK(drawn(2.0) == 2);
}

TEST_CASE("exec/samplers: candidates do not decide where penalties are") {
  CHECK(undecided_by({}, 1).empty());
  CHECK(has(undecided_by({.frequency_penalty = 1.5}, 8), "with a frequency_penalty of 1.5"));
  CHECK(has(undecided_by({.temperature = 1.0, .top_k = 4, .repetition_penalty = 1.1}, 8),
            "with a repetition_penalty of 1.1"));
  CHECK(undecided_by({.temperature = 1.0, .top_k = 4, .min_p = 0.1}, 8).empty());
  CHECK(has(undecided_by({.temperature = 1.0, .min_p = 0.1}, 8), "without a top-k"));
  const std::vector<Candidate> best{{3, 1.0F}, {1, 0.5F}};
  CHECK_THROWS_AS((void)Sampler({.presence_penalty = 1.0}).sample(Scores(best, 1.5)),
                  std::logic_error);
}

TEST_CASE("exec/samplers: numbers out of range are errors with their names") {
  const auto refused = [](const SamplingOptions& options) {
    return error_of([&] { const Sampler sampler(options); });
  };
  CHECK(has(refused({.min_p = -0.1}), "min-p: -0.1, expected a number from 0"));
  CHECK(has(refused({.min_p = 1.1}), "min-p: 1.1"));
  CHECK(has(refused({.repetition_penalty = 0.0}), "repetition-penalty: 0, expected above 0"));
  CHECK(has(refused({.repetition_penalty = 101.0}), "repetition-penalty: 101"));
  CHECK(has(refused({.presence_penalty = 2.1}), "presence-penalty: 2.1"));
  CHECK(has(refused({.frequency_penalty = -2.1}), "frequency-penalty: -2.1"));
  CHECK(has(refused({.frequency_penalty = std::nan("")}), "frequency-penalty: "));
}

}  // namespace
}  // namespace tandem::exec::samplers_test
