// No chunk and no number of steps in flight that are named are better than what the search finds,
// of one request and of many: on random small clusters, times by simulation.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "advice/choice.hpp"
#include "advice/one_strategy.hpp"
#include "planner/search/default_types.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/advice/random_questions.hpp"
#include "tests/support/sampled.hpp"

namespace tandem::study::explicit_flight_test {
namespace {

constexpr double kTolerance = 1e-3;

// `question` of the strategy with stages, all of whose axes are open.
Question of_stages(Question question) {
  question.keeps_axes = true;
  planner::Request& request = question.request;
  request.strategy = "pipeline";
  request.open_axes = {.stages = true, .sums = true};
  request = planner::with_default_types(std::move(request));
  return question;
}

struct Named {
  std::int64_t chunk = 0;
  std::int64_t steps = 0;
};

Question with(Question question, Named named) {
  if (!question.served) {
    question.prompt = {.rows = named.chunk, .steps = named.steps};
    return question;
  }
  question.best_chunk = false;
  question.served->chunk = named.chunk;
  question.served->steps = named.steps;
  return question;
}

std::string describe(const Question& question, const Contender& found) {
  const planner::Request& request = question.request;
  const std::size_t count = question.served ? question.served->requests.size() : 1;
  return std::to_string(count) + " of " + std::to_string(request.workload.prompt_tokens) + "+" +
         std::to_string(request.workload.new_tokens) + ", " +
         (question.served ? std::string(question.served->policy->name) : "one") + ", " +
         std::string(to_string(request.objective)) + ", " + std::to_string(request.cluster.size()) +
         " devices: " + std::to_string(found.seconds) + " s in chunks of " +
         std::to_string(found.chunk) + ", " + std::to_string(found.plan.reserved().steps) +
         " in flight";
}

// Returns the named values that beat the search within the strategy, a line each.
std::string beaten_by(const Question& question) {
  const auto made = plan_strategy(question);
  const auto* const found = std::get_if<Contender>(&made);
  if (found == nullptr) return {};
  std::string lines;
  for (const std::int64_t chunk : {0, 1, 2, 4, 8, 12, 16, 32, 64}) {
    for (const std::int64_t steps : {0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16}) {
      const double seconds =
          testing::strategy_seconds(with(question, {.chunk = chunk, .steps = steps}));
      if (seconds >= found->seconds * (1.0 - kTolerance)) continue;
      lines += "\n  --chunk " + std::to_string(chunk) + " --in-flight " + std::to_string(steps) +
               ": " + std::to_string(seconds) + " s";
    }
  }
  if (!lines.empty()) lines = describe(question, *found) + lines;
  return lines;
}

void check_cases(bool many) {
  testing::RandomQuestions random(testing::explicit_seed(11));
  testing::Sampled sampled(2);
  for (int i = 0; i < testing::explicit_cases(6); ++i) {
    const Question question = of_stages(many ? random.of_many(i) : random.question(i));
    if (!sampled()) continue;
    const std::string lines = beaten_by(question);
    CAPTURE(i);
    CAPTURE(lines);
    CHECK(lines.empty());
  }
}

TEST_CASE("study/steps in flight: of one request, none that are named beat the search" *
          doctest::test_suite("long")) {
  check_cases(false);
}

TEST_CASE("study/steps in flight: of many requests, none that are named beat the search" *
          doctest::test_suite("long")) {
  check_cases(true);
}

}  // namespace
}  // namespace tandem::study::explicit_flight_test
