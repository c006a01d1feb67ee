// Checks of plans by the interpreter.

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <vector>

#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_interpreter.hpp"

namespace tandem::test {

void check_close(const Row& actual, const Row& expected) {
  REQUIRE(actual.size() == expected.size());
  int bad = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (!(std::abs(actual[i] - expected[i]) < 1e-10)) ++bad;  // NaN is bad
  }
  CHECK(bad == 0);
}

void check_generation(const planner::Plan& plan) {
  const planner::Strategy& strategy = planner::find_strategy(plan.strategy);
  Interpreter interpreter(plan);
  std::vector<int> sequence{3, 1, 4, 1, 5};
  auto sampled = interpreter.run(strategy.lower(plan, planner::prompt_batch({5, 1})), sequence);
  REQUIRE(sampled.size() == 1);
  check_close(sampled.at(4), reference_logits(plan.model, sequence));
  for (const int token : {9, 2, 6}) {
    const auto past = static_cast<std::int32_t>(sequence.size());
    sequence.push_back(token);
    sampled = interpreter.run(strategy.lower(plan, planner::decode_batch(past)), {token});
    REQUIRE(sampled.size() == 1);
    check_close(sampled.at(0), reference_logits(plan.model, sequence));
  }
}

void check_batches(const planner::Plan& plan, bool several) {
  const planner::Strategy& strategy = planner::find_strategy(plan.strategy);
  for (const int length : {1, 2, 3, 7}) {
    CAPTURE(length);
    Interpreter interpreter(plan);
    std::vector<int> text{3, 1, 4, 1, 5, 9, 2};
    text.resize(static_cast<std::size_t>(length));
    auto sampled = interpreter.run(strategy.lower(plan, planner::prompt_batch({length, 1})), text);
    REQUIRE(sampled.size() == 1);
    check_close(sampled.at(length - 1), reference_logits(plan.model, text));
    for (const int token : {6, 2}) {
      const auto past = static_cast<std::int32_t>(text.size());
      text.push_back(token);
      sampled = interpreter.run(strategy.lower(plan, planner::decode_batch(past)), {token});
      check_close(sampled.at(0), reference_logits(plan.model, text));
    }
  }
  const std::vector<int> text{3, 1, 4, 1, 5};
  for (const std::int32_t wanted : {0, 2, 5}) {
    CAPTURE(wanted);
    Interpreter interpreter(plan);
    const auto sampled =
        interpreter.run(strategy.lower(plan, planner::scored_batch(5, wanted)), text);
    REQUIRE(sampled.size() == static_cast<std::size_t>(wanted));
    for (std::int32_t row = 5 - wanted; row < 5; ++row)
      check_close(sampled.at(row),
                  reference_logits(plan.model, {text.begin(), text.begin() + row + 1}));
  }
  // A prompt in chunks, of which the first ones are not sampled from.
  Interpreter chunked(plan);
  chunked.run(strategy.lower(plan, {{{.past = 0, .rows = 3, .sampled = 0}}}), {3, 1, 4});
  chunked.run(strategy.lower(plan, {{{.past = 3, .rows = 1, .sampled = 0}}}), {1});
  check_close(chunked.run(strategy.lower(plan, {{{.past = 4, .rows = 2}}}), {5, 9}).at(1),
              reference_logits(plan.model, {3, 1, 4, 1, 5, 9}));
  if (!several) return;
  Interpreter both(plan);
  both.run(strategy.lower(plan, {{{.sequence = 0, .past = 0, .rows = 3}}}), {3, 1, 4});
  auto sampled = both.run(strategy.lower(plan, {{{.sequence = 1, .past = 0, .rows = 2},
                                                 {.sequence = 0, .past = 3, .rows = 1},
                                                 {.sequence = 2, .past = 0, .rows = 3}}}),
                          {2, 7, 5, 1, 8, 2});
  check_close(sampled.at(1), reference_logits(plan.model, {2, 7}));
  check_close(sampled.at(2), reference_logits(plan.model, {3, 1, 4, 5}));
  check_close(sampled.at(5), reference_logits(plan.model, {1, 8, 2}));
  sampled = both.run(strategy.lower(plan, {{{.sequence = 2, .past = 3, .rows = 1},
                                            {.sequence = 0, .past = 4, .rows = 1}}}),
                     {6, 8});
  check_close(sampled.at(0), reference_logits(plan.model, {1, 8, 2, 6}));
  check_close(sampled.at(1), reference_logits(plan.model, {3, 1, 4, 5, 8}));
}

}  // namespace tandem::test
