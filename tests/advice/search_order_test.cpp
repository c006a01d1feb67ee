// The order of the search: a plan soon, and what promises most first.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "advice/choice.hpp"
#include "advice/one_strategy.hpp"
#include "planner/partition/search_effort.hpp"
#include "sim/platform/platform.hpp"
#include "sim/replay/replay.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::study::search_order_test {
namespace {

using planner::SearchEffort;

Question tinyllama_on_home4() {
  const std::string platform =
      tandem::testing::in_sources("scenarios/platforms/home4.xml").string();
  planner::Request request{.model = model::test::named_model("tinyllama-1.1b"),
                           .cluster = sim::read_platform(platform).cluster,
                           .evaluate = sim::evaluate_fair,
                           .workload = {.prompt_tokens = 128, .new_tokens = 32}};
  request.model.formats = model::WeightFormats(model::WeightFormat::q4_0);
  request.window.blocks.reset();
  return {.request = std::move(request), .prompt = {.best = true}};
}

Question of_strategy(Question question, const std::string& strategy) {
  question.request.strategy = strategy;
  question.request.open_axes = {.parts = true, .stages = true, .moves = true, .sums = true};
  question.keeps_axes = true;
  return question;
}

TEST_CASE("study/search order: there is a plan at once, and the best so far never worsens") {
  SearchEffort effort({.evaluations = 400});
  Question question = tinyllama_on_home4();
  question.effort = &effort;
  std::vector<double> best;
  std::int64_t at_first = 0;
  question.progress = [&](const BestSoFar& so_far) {
    if (best.empty()) at_first = effort.evaluations();
    best.push_back(so_far.seconds);
  };
  const Choice found = choose(question);
  REQUIRE(best.size() > 5);
  CHECK(best.front() < 1e9);
  CHECK(at_first <= 10);
  for (std::size_t i = 1; i < best.size(); ++i) CHECK(best[i] <= best[i - 1]);
  CHECK(found.contenders.front().seconds <= best.back() * (1.0 + 1e-9));
}

TEST_CASE(
    "study/search order: the best strategy is refined before others are searched to the end") {
  Question question = tinyllama_on_home4();
  SearchEffort effort({.evaluations = 4000});
  question.effort = &effort;
  const Choice found = choose(question);
  CHECK_FALSE(found.to_the_end);
  for (const char* const strategy : {"spread", "sp", "tensor"}) {
    CAPTURE(strategy);
    const auto made = plan_strategy(of_strategy(tinyllama_on_home4(), strategy));
    REQUIRE(std::holds_alternative<Contender>(made));
    CHECK(found.contenders.front().seconds <= std::get<Contender>(made).seconds * 1.01);
  }
}

TEST_CASE("study/search order: one strategy has a rough plan first, within a limit, too") {
  for (const char* const strategy : {"spread", "galaxy", "pipeline"}) {
    CAPTURE(strategy);
    Question question = of_strategy(tinyllama_on_home4(), strategy);
    const auto planned = [&](std::int64_t evaluations) {
      SearchEffort effort({.evaluations = evaluations});
      question.effort = &effort;
      auto made = plan_strategy(question);
      REQUIRE(std::holds_alternative<Contender>(made));
      return std::get<Contender>(std::move(made));
    };
    const Contender first = planned(1);
    const Contender later = planned(300);
    const Contender last = planned(1'000'000);
    CHECK(later.seconds <= first.seconds * (1.0 + 1e-9));
    CHECK(last.seconds <= later.seconds * (1.0 + 1e-9));
    CHECK(first.decisions.size() <= last.decisions.size());
    for (const planner::Decision& one : last.decisions) CHECK_FALSE(one.is_cut);
  }
}

}  // namespace
}  // namespace tandem::study::search_order_test
