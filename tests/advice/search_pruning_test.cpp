// What a search leaves out changes nothing, and no plan is below its lower bound.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "advice/choice.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/replay/replay.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/support/random_clusters.hpp"
#include "tests/support/sampled.hpp"

namespace tandem::study::search_pruning_test {
namespace {

using planner::Objective;

constexpr int kClusters = 8;

// Of every other cluster no device has room for the whole model, so that weights may stream.
Question random_question(test::RandomClusters& random, int number) {
  const double memory = number % 2 == 0 ? 8e7 : 1e9;
  planner::Request request{
      .model = model::test::named_model("tinyllama-1.1b").first_layers(4),
      .cluster = random.cluster(3, memory, 3.0 * memory),
      .evaluate = sim::evaluate_fair,
      .workload = {.prompt_tokens = random.integer(2, 100), .new_tokens = random.integer(2, 8)}};
  request.window.blocks.reset();
  request.model.formats =
      model::WeightFormats(number % 4 < 2 ? model::WeightFormat::q8_0 : model::WeightFormat::q4_0);
  // Layers that differ.
  request.model.formats.set(model::WeightMatrix::down, 1, model::WeightFormat::f16);
  const std::vector<Objective> objectives{Objective::request, Objective::ttft, Objective::latency};
  request.objective = objectives[static_cast<std::size_t>(number) % objectives.size()];
  return {.request = std::move(request)};
}

TEST_CASE("study/search: what is pruned is not the best, and nothing is below the bound" *
          doctest::test_suite("long")) {
  test::RandomClusters random(89);
  tandem::testing::Sampled sampled(3, tandem::testing::kTakesMinutes);
  int streamed = 0;
  for (int i = 0; i < kClusters; ++i) {
    CAPTURE(i);
    Question question = random_question(random, i);
    if (!sampled()) continue;
    const Choice pruned = choose(question);
    question.prunes = false;
    const Choice whole = choose(question);
    REQUIRE(pruned.contenders.size() == whole.contenders.size());
    if (whole.contenders.empty()) continue;
    CHECK(pruned.contenders.front().plan == whole.contenders.front().plan);
    CHECK(pruned.contenders.front().seconds == whole.contenders.front().seconds);
    CHECK(pruned.least_s > 0.0);
    for (const Contender& one : whole.contenders) {
      CAPTURE(one.plan.strategy);
      CHECK(pruned.least_s <= one.seconds * (1.0 + 1e-9));
      streamed += one.plan.streams() ? 1 : 0;
    }
  }
  CHECK(streamed > 0);
}

}  // namespace
}  // namespace tandem::study::search_pruning_test
