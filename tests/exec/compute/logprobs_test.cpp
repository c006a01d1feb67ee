// Log-probabilities against the definition in long double, and from candidates against all logits.

#include "exec/compute/logprobs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

namespace tandem::exec::logprobs_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_CASE("exec/logprobs: log softmax of the logits, the likeliest first") {
  std::mt19937_64 chance(12);
  std::normal_distribution<float> normal(0.0F, 4.0F);
  for (int i = 0; i < 50; ++i) {
    std::vector<float> logits(1 + chance() % 300);
    for (float& x : logits) x = i % 2 == 0 ? normal(chance) : std::round(normal(chance));
    long double sum = 0.0L;
    for (const float x : logits) sum += std::exp(static_cast<long double>(x));
    const auto expected = [&](std::int32_t id) {
      const auto x = static_cast<long double>(logits[static_cast<std::size_t>(id)]);
      return static_cast<double>(x - std::log(sum));
    };
    const auto chosen = static_cast<std::int32_t>(chance() % logits.size());
    const TokenLogprobs all = logprobs_of(Scores(logits), chosen, 20);
    CHECK(all.chosen.id == chosen);
    CHECK(all.chosen.logprob == doctest::Approx(expected(chosen)).epsilon(1e-12));
    REQUIRE(all.best.size() == std::min<std::size_t>(20, logits.size()));
    std::vector<std::int32_t> ids(logits.size());
    for (std::size_t k = 0; k < ids.size(); ++k) ids[k] = static_cast<std::int32_t>(k);
    std::ranges::stable_sort(ids, [&](std::int32_t a, std::int32_t b) {
      return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
    });
    for (std::size_t k = 0; k < all.best.size(); ++k) {
      CHECK(all.best[k].id == ids[k]);
      CHECK(all.best[k].logprob == doctest::Approx(expected(ids[k])).epsilon(1e-12));
    }
    // From candidates and their denominator.
    std::vector<Candidate> best;
    find_best(logits, 0, 30, best);
    double denominator = 0.0;
    for (const float x : logits) denominator += std::exp(double{x} - double{best.front().logit});
    const TokenLogprobs some = logprobs_of(Scores(best, denominator), best.back().id,
                                           std::min<std::size_t>(5, best.size()));
    CHECK(some.chosen.logprob == doctest::Approx(expected(best.back().id)).epsilon(1e-12));
    for (std::size_t k = 0; k < some.best.size(); ++k)
      CHECK(some.best[k].logprob == doctest::Approx(expected(ids[k])).epsilon(1e-12));
  }
}

TEST_CASE("exec/logprobs: closed forms, impossible and certain tokens") {
  SUBCASE("four equal logits: log(1/4), no alternatives asked for") {
    const TokenLogprobs all = logprobs_of(Scores(std::vector<float>(4, 7.0F)), 2, 0);
    CHECK(all.chosen.logprob == doctest::Approx(-std::log(4.0)));
    CHECK(all.best.empty());
  }
  SUBCASE("-inf is impossible, of two +inf each has a half") {
    const std::vector<float> logits{0.0F, kInfinity, -kInfinity, kInfinity};
    const TokenLogprobs all = logprobs_of(Scores(logits), 1, 4);
    CHECK(all.chosen.logprob == doctest::Approx(std::log(0.5)));
    CHECK(all.best[1].id == 3);
    CHECK(all.best[2].logprob == -std::numeric_limits<double>::infinity());
  }
  SUBCASE("candidates without the token, or too few") {
    const std::vector<Candidate> best{{3, 1.0F}, {1, 0.5F}};
    CHECK_THROWS_AS((void)logprobs_of(Scores(best, 1.6), 2, 1), std::logic_error);
    CHECK_THROWS_AS((void)logprobs_of(Scores(best, 1.6), 3, 3), std::logic_error);
  }
}

}  // namespace
}  // namespace tandem::exec::logprobs_test
