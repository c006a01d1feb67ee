// The best of logits, device by device and merged, against sorting all of them.

#include "exec/compute/shortlist.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "exec/compute/sampling.hpp"
#include "exec/kernels/kernel_table.hpp"
#include "model/graph/candidates.hpp"
#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::shortlist_test {
namespace {

using testing::error_of;
using testing::has;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// All of them, likeliest first, the smaller id among equals.
std::vector<Candidate> sorted(const std::vector<float>& logits) {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < logits.size(); ++i)
    all.push_back({static_cast<std::int32_t>(i), logits[i]});
  std::ranges::stable_sort(
      all, [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  return all;
}

// What devices with rows up to each of `ends` tell, one after another.
std::vector<float> told_by(const std::vector<float>& logits, const std::vector<std::size_t>& ends,
                           std::int32_t count) {
  const auto columns = static_cast<std::size_t>(model::candidate_columns(count));
  std::vector<float> told(columns * ends.size(), std::nanf(""));
  std::vector<Candidate> scratch;
  std::size_t begin = 0;
  for (std::size_t d = 0; d < ends.size(); ++d) {
    tell_candidates(tuned_kernels(), std::span(logits).subspan(begin, ends[d] - begin),
                    static_cast<std::int32_t>(begin), scratch,
                    std::span(told).subspan(d * columns, columns));
    begin = ends[d];
  }
  return told;
}

struct Merged {
  std::vector<Candidate> best;
  double denominator = 0.0;
};
Merged merged(const std::vector<float>& logits, const std::vector<std::size_t>& ends,
              std::int32_t count) {
  Merged all;
  all.denominator =
      merge_candidates(told_by(logits, ends, count),
                       static_cast<std::size_t>(model::candidate_columns(count)), all.best);
  return all;
}

double denominator_of(const std::vector<float>& logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(double{x} - largest);
  return sum;
}

// Few values, so that many are equal; some of -infinity.
std::vector<float> drawn(std::mt19937_64& chance, std::size_t size, bool ties) {
  std::vector<float> logits(size);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  for (float& x : logits) {
    x = ties ? std::round(normal(chance)) : normal(chance);
    if (chance() % 9 == 0) x = -kInfinity;
    if (chance() % 9 == 0) x = chance() % 2 == 0 ? 0.0F : -0.0F;
  }
  logits[chance() % size] = 0.5F;  // not all of -infinity
  return logits;
}

std::vector<std::size_t> cut(std::mt19937_64& chance, std::size_t size, std::size_t devices) {
  std::set<std::size_t> ends{size};
  while (ends.size() < std::min(devices, size)) ends.insert(1 + chance() % size);
  return {ends.begin(), ends.end()};
}

TEST_CASE("exec/candidates: merged they are the best of all, with ties, -inf and short devices") {
  std::mt19937_64 chance(4);
  for (int i = 0; i < 300; ++i) {
    const std::size_t size = 1 + chance() % 400;
    const std::vector<float> logits = drawn(chance, size, i % 2 == 0);
    const std::vector<std::size_t> ends = cut(chance, size, 1 + chance() % 5);
    for (const std::int32_t count : {1, 2, 7, 64, 500}) {
      CAPTURE(i);
      CAPTURE(count);
      std::vector<Candidate> expected = sorted(logits);
      expected.resize(std::min(size, static_cast<std::size_t>(count)));
      const Merged got = merged(logits, ends, count);
      CHECK(got.best == expected);
      CHECK(got.denominator == doctest::Approx(denominator_of(logits)).epsilon(1e-5));
      std::vector<Candidate> best;
      find_best(logits, 0, static_cast<std::size_t>(count), best);
      CHECK(best == expected);
    }
  }
}

TEST_CASE("exec/candidates: a token drawn from them is the one drawn from all logits") {
  std::mt19937_64 chance(8);
  for (const SamplingOptions& options :
       {SamplingOptions{}, SamplingOptions{0.8, 1.0, 5, 1}, SamplingOptions{0.7, 0.9, 5, 16},
        SamplingOptions{3.0, 0.3, 5, 16}, SamplingOptions{1.0, 1.0, 5, 16}}) {
    CAPTURE(options.temperature);
    CAPTURE(options.top_p);
    REQUIRE(undecided_by(options, 16).empty());
    Sampler whole(options);
    Sampler some(options);
    for (int i = 0; i < 200; ++i) {
      const std::vector<float> logits = drawn(chance, 1 + chance() % 200, i % 2 == 0);
      const Merged told = merged(logits, cut(chance, logits.size(), 3), 16);
      CHECK(whole.sample(logits) == some.sample(Scores(told.best, told.denominator)));
    }
  }
}

TEST_CASE("exec/candidates: what they do not decide is said") {
  CHECK(undecided_by({.temperature = 0.0}, 1).empty());
  CHECK(undecided_by({.temperature = 0.5, .top_k = 8}, 8).empty());
  CHECK(has(undecided_by({.temperature = 0.5, .top_k = 9}, 8), "top-k 9"));
  CHECK(has(undecided_by({.temperature = 0.5}, 8), "without a top-k"));
  CHECK(!undecided_by({.temperature = 0.5, .top_p = 0.1}, 8).empty());
  const std::vector<Candidate> best{{3, 1.0F}, {1, 0.5F}};
  CHECK_THROWS_AS((void)Sampler({.temperature = 0.5}).sample(Scores(best, 1.5)), std::logic_error);
  CHECK_THROWS_AS((void)Scores(best, 1.5).logits(), std::logic_error);
}

TEST_CASE("exec/candidates: infinite logits, none that is finite, and one that is no number") {
  const std::vector<std::size_t> halves{3, 6};
  CHECK(merged(std::vector<float>(6, -kInfinity), halves, 2).best ==
        std::vector<Candidate>{{0, -kInfinity}, {1, -kInfinity}});
  CHECK(merged(std::vector<float>(6, -kInfinity), halves, 2).denominator == 0.0);
  const Merged certain = merged({1.0F, 2.0F, 3.0F, 0.0F, kInfinity, kInfinity}, halves, 2);
  CHECK(certain.best == std::vector<Candidate>{{4, kInfinity}, {5, kInfinity}});
  CHECK(certain.denominator == 2.0);
  const Merged lone =
      merged({-kInfinity, -kInfinity, -kInfinity, 1.0F, 1.0F, -kInfinity}, halves, 4);
  CHECK(lone.best ==
        std::vector<Candidate>{{3, 1.0F}, {4, 1.0F}, {0, -kInfinity}, {1, -kInfinity}});
  CHECK(lone.denominator == 2.0);
  for (const std::size_t at : {std::size_t{0}, std::size_t{70}, std::size_t{199}}) {
    std::vector<float> broken(200, 1.0F);
    broken[at] = std::nanf("");
    const std::string said = error_of([&] { (void)merged(broken, {100, 200}, 4); });
    CHECK(has(said, "token " + std::to_string(at)));
    CHECK(has(said, "NaN"));
  }
}

TEST_CASE("exec/candidates: a message that is none is refused") {
  std::vector<float> told = told_by({1.0F, 2.0F, 3.0F}, {3}, 2);
  std::vector<Candidate> best;
  for (const float id : {-2.0F, 0x1p24F, std::nanf("")}) {
    std::vector<float> broken = told;
    broken[3] = id;
    CHECK(has(error_of([&] { (void)merge_candidates(broken, 5, best); }), "corrupt"));
  }
  told[3] = told[4] = -1.0F;
  CHECK(has(error_of([&] { (void)merge_candidates(told, 5, best); }), "no candidates"));
}

TEST_CASE("exec/sampling: top-k draws from the likeliest, by their softmax, and then the nucleus") {
  const std::vector<float> logits{std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
  const auto counts = [&](const SamplingOptions& options) {
    Sampler sampler(options);
    std::vector<int> count(4);
    for (int i = 0; i < 4000; ++i) ++count[static_cast<std::size_t>(sampler.sample(logits))];
    return count;
  };
  const std::vector<int> two = counts({.temperature = 1.0, .seed = 1, .top_k = 2});
  CHECK(two[0] + two[2] == 0);
  // 0.4 of 0.7: 2286 of 4000, with a deviation of 31.
  CHECK(std::abs(two[1] - 2286) < 155);
  CHECK(counts({.temperature = 1.0, .seed = 1, .top_k = 1})[1] == 4000);
  // Of 0.4, 0.3 and 0.2, the first two have 7 / 9.
  const std::vector<int> cut = counts({.temperature = 1.0, .top_p = 0.75, .seed = 1, .top_k = 3});
  CHECK(cut[0] + cut[2] == 0);
  CHECK(cut[3] > 0);
  CHECK(has(error_of([] { const Sampler bad({.temperature = 1.0, .top_k = -1}); }), "top-k"));
}

}  // namespace
}  // namespace tandem::exec::shortlist_test
