#include "exec/compute/sampling.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::sampling_test {
namespace {

using testing::error_of;
using testing::has;

// Logits whose softmax is `probabilities`, shifted: softmax does not see the shift.
std::vector<float> logits_of(const std::vector<double>& probabilities, double shift = 0.0) {
  std::vector<float> logits(probabilities.size());
  std::ranges::transform(probabilities, logits.begin(),
                         [&](double p) { return static_cast<float>(std::log(p) + shift); });
  return logits;
}

std::vector<int> counts(const SamplingOptions& options, const std::vector<float>& logits,
                        int draws) {
  Sampler sampler(options);
  std::vector<int> count(logits.size());
  for (int i = 0; i < draws; ++i) ++count[static_cast<std::size_t>(sampler.sample(logits))];
  return count;
}

std::set<std::int32_t> drawn(double top_p, const std::vector<double>& probabilities) {
  Sampler sampler({1.0, top_p, 99});
  std::set<std::int32_t> ids;
  for (int i = 0; i < 2000; ++i) ids.insert(sampler.sample(logits_of(probabilities)));
  return ids;
}

// The draws follow `expected` within chi-square's bound: mean k - 1, deviation sqrt(2 (k - 1)); 5
// deviations beyond the mean.
void check_frequencies(const std::vector<int>& count, const std::vector<double>& expected) {
  const double draws = std::accumulate(count.begin(), count.end(), 0.0);
  double chi_square = 0.0;
  for (std::size_t i = 0; i < count.size(); ++i) {
    const double mean = draws * expected[i];
    chi_square += (count[i] - mean) * (count[i] - mean) / mean;
  }
  const double freedom = static_cast<double>(count.size()) - 1.0;
  CHECK(chi_square < freedom + 5.0 * std::sqrt(2.0 * freedom));
}

TEST_CASE("exec/sampling: greedy takes the largest logit, the smallest id among equals") {
  Sampler sampler({});
  CHECK(sampler.sample(std::vector<float>{1.0F}) == 0);
  CHECK(sampler.sample(std::vector<float>{1.0F, 3.0F, 3.0F, 2.0F}) == 1);
  CHECK(sampler.sample(std::vector<float>{-5.0F, -4.0F, -4.0F}) == 1);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(sampler.sample(std::vector<float>{-kInfinity, 0.0F, kInfinity}) == 2);
  CHECK(sampler.sample(std::vector<float>{-0.0F, 0.0F}) == 0);
}

TEST_CASE("exec/sampling: frequencies are softmax(logits / temperature)") {
  const std::vector<double> p{0.5, 0.25, 0.125, 0.0625, 0.0625};
  SUBCASE("temperature 1: the probabilities themselves, whatever the shift") {
    for (const double shift : {0.0, 80.0, -300.0}) {
      check_frequencies(counts({1.0, 1.0, 5}, logits_of(p, shift), 20000), p);
    }
  }
  SUBCASE("temperature 0.5: their squares, 64:16:4:1:1 of 86") {
    check_frequencies(counts({0.5, 1.0, 6}, logits_of(p), 20000),
                      {64.0 / 86, 16.0 / 86, 4.0 / 86, 1.0 / 86, 1.0 / 86});
  }
  SUBCASE("top-p 0.75: the first two, 2:1") {
    const auto count = counts({1.0, 0.7499, 7}, logits_of(p), 20000);
    CHECK(count[2] + count[3] + count[4] == 0);
    check_frequencies({count[0], count[1]}, {2.0 / 3, 1.0 / 3});
  }
}

TEST_CASE("exec/sampling: the nucleus is the smallest set that reaches top-p") {
  const std::vector<double> p{0.1, 0.4, 0.2, 0.3};
  CHECK(drawn(0.001, p) == std::set<std::int32_t>{1});
  CHECK(drawn(0.39, p) == std::set<std::int32_t>{1});
  CHECK(drawn(0.41, p) == std::set<std::int32_t>{1, 3});
  CHECK(drawn(0.69, p) == std::set<std::int32_t>{1, 3});
  CHECK(drawn(0.71, p) == std::set<std::int32_t>{1, 2, 3});
  CHECK(drawn(0.91, p) == std::set<std::int32_t>{0, 1, 2, 3});
  CHECK(drawn(1.0, p) == std::set<std::int32_t>{0, 1, 2, 3});
  // Among equals the smaller ids are in.
  CHECK(drawn(0.45, {0.25, 0.25, 0.25, 0.25}) == std::set<std::int32_t>{0, 1});
}

TEST_CASE("exec/sampling: a token that is impossible is never drawn") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto count = counts({2.0, 1.0, 3}, {-kInfinity, 0.0F, -kInfinity, 0.0F}, 1000);
  CHECK(count[0] + count[2] == 0);
  CHECK(count[1] + count[3] == 1000);
}

TEST_CASE("exec/sampling: the same seed draws the same tokens, on every platform") {
  std::vector<float> logits(50);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = 0.125F * static_cast<float>((i * 7) % 11);
  }
  const auto twelve = [&](std::uint64_t seed) {
    Sampler sampler({0.8, 0.95, seed});
    std::vector<std::int32_t> tokens(12);
    for (std::int32_t& token : tokens) token = sampler.sample(logits);
    return tokens;
  };
  // From an independent mt19937-64 and nucleus in Python.
  CHECK(twelve(2024) == std::vector<std::int32_t>{15, 21, 17, 39, 3, 36, 27, 45, 6, 23, 45, 4});
  CHECK(twelve(2024) != twelve(2025));
}

TEST_CASE("exec/sampling: NaN logits and senseless options are errors") {
  const float nan = std::nanf("");
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler({temperature, 1.0, 0});
    CHECK(
        has(error_of([&] {
              [[maybe_unused]] const auto id = sampler.sample(std::vector<float>{1.0F, 2.0F, nan});
            }),
            "token 2 is NaN"));
  }
  for (const SamplingOptions& options : {SamplingOptions{-0.1, 1.0, 0},
                                         {std::nan(""), 1.0, 0},
                                         {std::numeric_limits<double>::infinity(), 1.0, 0},
                                         {1.0, 0.0, 0},
                                         {1.0, 1.01, 0},
                                         {1.0, -0.5, 0},
                                         {1.0, std::nan(""), 0}}) {
    CHECK(has(error_of([&] { const Sampler sampler(options); }), "expected"));
  }
}

// The definition: sort all, likeliest first, the smaller id among equals, and cut.
std::int32_t sorted_choice(const std::vector<float>& logits, double temperature, double top_p,
                           double draw) {
  struct Candidate {
    std::int32_t id = 0;
    double weight = 0.0;
  };
  const float largest = *std::ranges::max_element(logits);
  std::vector<Candidate> candidates;
  double total = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double difference = static_cast<double>(logits[i]) - static_cast<double>(largest);
    candidates.push_back({static_cast<std::int32_t>(i), std::exp(difference / temperature)});
    total += candidates.back().weight;
  }
  if (top_p < 1.0) {
    std::ranges::stable_sort(candidates, std::greater<>(), &Candidate::weight);
    double kept = 0.0;
    std::size_t size = 0;
    while (size < candidates.size() && (size == 0 || kept < top_p * total)) {
      kept += candidates[size++].weight;
    }
    candidates.resize(size);
    total = kept;
  }
  double remaining = draw * total;
  for (const Candidate& candidate : candidates) {
    remaining -= candidate.weight;
    if (remaining < 0.0) return candidate.id;
  }
  return candidates.front().id;
}

TEST_CASE("exec/sampling: the nucleus is that of sorting the whole vocabulary, ties included") {
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  const struct {
    const char* name;
    float (*logit)(std::mt19937_64& random, std::normal_distribution<float>& normal, std::size_t i);
  } kinds[] = {
      {"peaked", [](auto& r, auto& n, std::size_t) { return 6.0F * n(r); }},
      {"flat", [](auto& r, auto& n, std::size_t) { return 0.01F * n(r); }},
      {"ties", [](auto& r, auto&, std::size_t) { return static_cast<float>(r() % 5); }},
      {"all equal", [](auto&, auto&, std::size_t) { return 1.0F; }},
      {"one likely, many impossible",
       [](auto&, auto&, std::size_t i) { return i == 3 ? 0.0F : -1e30F; }},
      {"falling", [](auto&, auto&, std::size_t i) { return -1e-3F * static_cast<float>(i); }},
  };
  for (const auto& kind : kinds) {
    for (const std::size_t size : {1U, 2U, 127U, 128U, 129U, 700U, 5000U}) {
      for (const double top_p : {1e-9, 0.1, 0.5, 0.9, 0.99, 0.999999, 1.0 - 1e-16, 1.0}) {
        for (const double temperature : {0.2, 1.0, 3.0}) {
          std::vector<float> logits(size);
          for (std::size_t i = 0; i < size; ++i) logits[i] = kind.logit(random, normal, i);
          Sampler sampler({temperature, top_p, size});
          std::mt19937_64 engine(size);
          for (int i = 0; i < 5; ++i) {
            const double draw = static_cast<double>(engine() >> 11U) * 0x1p-53;
            const std::int32_t expected = sorted_choice(logits, temperature, top_p, draw);
            const std::int32_t got = sampler.sample(logits);
            if (got == expected) continue;
            CAPTURE(kind.name);
            CAPTURE(size);
            CAPTURE(top_p);
            CHECK(got == expected);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::exec::sampling_test
