// The plan of one strategy that is named: the same search as of all strategies, with the values
// that are given.

#include "advice/one_strategy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "advice/choice.hpp"
#include "model/base/error.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/platform/platform.hpp"
#include "sim/replay/replay.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::study::one_strategy_test {
namespace {

using planner::Plan;
using planner::Request;

// Four devices at millisecond links, for a model of four layers; all axes are open.
Question question_for(const std::string& strategy) {
  Request request{.model = model::test::named_model("tinyllama-1.1b").first_layers(4),
                  .cluster = model::test::star(4, model::Seconds{2e-4}, model::BytesPerSecond{1e8}),
                  .strategy = strategy,
                  .evaluate = sim::evaluate_fair,
                  .workload = {.prompt_tokens = 48, .new_tokens = 4}};
  request.window.blocks.reset();
  const planner::Sharding& sharding = planner::find_strategy(strategy).sharding;
  request.open_axes = {
      .parts = true, .stages = true, .moves = true, .sums = true, .at_length = true, .tiles = true};
  if (sharding.splits_layers()) request.rounds.reset();
  if (sharding.shares_token_ffn()) request.token_ffn = planner::TokenFfn::automatic;
  return {.request = std::move(request),
          .keeps_axes = true,
          .prompt = {.best = !sharding.splits_positions()}};
}

Contender planned(const Question& question) {
  auto made = plan_strategy(question);
  REQUIRE(std::holds_alternative<Contender>(made));
  return std::get<Contender>(std::move(made));
}

TEST_CASE("study/one strategy: a long request beside short ones, with all axes open") {
  Question question = question_for("spread");
  std::vector<planner::InferenceRequest> requests;
  for (const std::int64_t prompt : {1500, 60, 60, 60, 60})
    requests.push_back(
        {.id = "r" + std::to_string(requests.size()), .prompt_tokens = prompt, .new_tokens = 4});
  question.prompt = {};
  question.served =
      ServedWorkload{.requests = requests, .policy = &planner::find_policy("continuous")};
  const Contender found = planned(question);
  CHECK(found.plan.capacity.sequences == 5);
  CHECK(found.plan.decode_moves == planner::DecodeMoves::queries);
  CHECK_FALSE(planner::has_column_parts(found.plan));
  const model::Result result = predict_served_fairly(found.plan, *question.served);
  REQUIRE(result.requests.size() == 5);
  for (const model::RequestResult& request : result.requests) CHECK(request.ttft_s > 0.0);
}

TEST_CASE("study/one strategy: is no slower than the same one that auto lists, on its devices") {
  Question any = question_for("local");
  any.keeps_axes = false;
  any.prunes = false;
  any.prompt = {.best = true};
  any.request.rounds = 1;
  any.request.token_ffn = planner::TokenFfn::owner;
  const Choice choice = choose(any);
  REQUIRE(choice.contenders.size() == planner::strategies().size());
  for (const Contender& listed : choice.contenders) {
    CAPTURE(listed.plan.strategy);
    Question question = question_for(listed.plan.strategy);
    const std::vector<model::Device>& devices = listed.plan.cluster.devices();
    std::vector<bool> used;
    for (const model::Device& device : question.request.cluster.devices())
      used.push_back(std::ranges::find(devices, device.name, &model::Device::name) !=
                     devices.end());
    question.request.master = devices[static_cast<std::size_t>(listed.plan.master)].name;
    question.request = planner::for_devices(std::move(question.request), used);
    CHECK(planned(question).seconds <= listed.seconds * (1.0 + 1e-3));
  }
}

TEST_CASE("study/one strategy: what is open is no slower than what is usual, or any value of it") {
  for (const planner::Strategy& strategy : planner::strategies()) {
    CAPTURE(strategy.name);
    const Question open = question_for(strategy.name);
    const double seconds = planned(open).seconds;
    const auto at_most = [&](Question question) {
      CHECK(seconds <= planned(question).seconds * (1.0 + 1e-3));
    };
    Question usual = open;
    usual.request.open_axes = {};
    usual.request.rounds = 1;
    usual.request.token_ffn = planner::TokenFfn::owner;
    at_most(usual);
    if (!strategy.sharding.has_partition()) continue;
    Question equal = open;
    equal.request.partition = "equal";
    equal.request.open_axes.stages = false;
    at_most(equal);
  }
}

// Groups "auto" of flat3 are all of its devices.
TEST_CASE("study/one strategy: a pipeline is no slower than all of its devices as one group") {
  Question question = question_for("pipeline");
  Request& request = question.request;
  request.model = model::test::named_model("tinyllama-1.1b");
  request.model.formats = model::WeightFormats(model::WeightFormat::q8_0);
  request.cluster =
      sim::read_platform(testing::in_sources("scenarios/platforms/flat3.xml").string()).cluster;
  request.workload = {.prompt_tokens = 32, .new_tokens = 8};
  request.wire = model::WireFormat::bf16;
  request.model.cache = model::CacheFormat::f16;
  Question single = question;
  single.request.open_axes.stages = false;
  const Contender found = planned(question);
  for (const std::string_view prompts : {std::string_view(), planner::kGalaxyGroups}) {
    Question grouped = single;
    grouped.request.groups = "auto";
    grouped.request.group_strategy = prompts;
    grouped.request.allreduce = prompts.empty() ? "star" : "ring,star";
    grouped.request.rounds = 1;
    CHECK(found.seconds <= planned(grouped).seconds * (1.0 + 1e-3));
  }
}

TEST_CASE("study/one strategy: devices that are far from one another are joined where that helps") {
  // No device is nearer to one than to another, so that groups "auto" are all of them.
  Question question = question_for("pipeline");
  question.request.cluster = model::test::star(3, model::Seconds{1e-6}, model::BytesPerSecond{1e9});
  const double open = planned(question).seconds;
  for (const char* const groups : {"d0,d1/d2", "d0,d2/d1", "d1,d2/d0", "d0,d1,d2"}) {
    CAPTURE(groups);
    Question named = question;
    named.request.open_axes.stages = false;
    named.request.groups = groups;
    named.request.allreduce = planner::kAutoAllreduce;
    named.request.rounds = 1;
    CHECK(open <= planned(named).seconds * (1.0 + 1e-3));
  }
}

TEST_CASE("study/one strategy: no number of tiles is better than the one that is found") {
  for (const char* const strategy : {"csps", "galaxy"}) {
    CAPTURE(strategy);
    Question question = question_for(strategy);
    question.request.objective = planner::Objective::ttft;
    const double open = planned(question).seconds;
    for (const std::int32_t tiles : {0, 1, 2, 3, 4, 6, 8}) {
      CAPTURE(tiles);
      Question named = question;
      named.request.tiles = tiles;
      CHECK(open <= planned(named).seconds * (1.0 + 1e-3));
    }
  }
}

TEST_CASE("study/one strategy: values that are given are kept, and errors name them") {
  Question question = question_for("galaxy");
  question.request.allreduce = "ring";
  question.request.open_axes.sums = false;
  question.request.tiles = 2;
  question.request.partition = "2:1:1:1";
  const Plan plan = planned(question).plan;
  CHECK(plan.allreduce == planner::AllreduceChoice{"ring", "ring"});
  CHECK(plan.tiles == 2);
  CHECK(plan.partition == "2:1:1:1");
  CHECK(plan.cluster.size() == 4);
  question.request.partition = "2:1";
  CHECK_THROWS_AS(static_cast<void>(plan_strategy(question)), Error);
  Question spread = question_for("spread");
  spread.request.decode_moves = planner::DecodeMoves::keys_each_step;
  spread.request.open_axes.moves = false;
  CHECK(planned(spread).plan.decode_moves == planner::DecodeMoves::keys_each_step);
}

TEST_CASE("study/one strategy: decisions say what was weighed, and plan files keep them") {
  const Contender found = planned(question_for("galaxy"));
  const auto of = [&](const std::string& axis) {
    return std::ranges::find(found.decisions, axis, &planner::Decision::axis);
  };
  REQUIRE(of("usual all-reduce") != found.decisions.end());
  CHECK(of("usual all-reduce")->alternatives.size() == 2);
  // Shares for the plan's tiles are searched with these tiles given.
  CHECK((of("tiles") != found.decisions.end() || found.plan.tiles >= 2));
  CHECK(of("rounds") == found.decisions.end());
  const planner::PlanFile file{
      .plan = found.plan,
      .decisions = {{.axis = "tiles", .value = "2", .considered = 4},
                    {.axis = "usual all-reduce", .value = "auto", .considered = 2}}};
  const std::string json = planner::to_json(file);
  CHECK(planner::parse_plan_file(json, "plan") == file);
  CHECK(planner::parse_plan_file(planner::to_json(found.plan), "plan").decisions.empty());
  std::string broken = json;
  broken.replace(broken.find("\"considered\": 4"), 15, "\"considered\": 0");
  CHECK_THROWS_AS(static_cast<void>(planner::parse_plan_file(broken, "plan")), Error);
}

}  // namespace
}  // namespace tandem::study::one_strategy_test
