// Caches spread by positions: who owns what, and what it costs to ask.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/conflicts.hpp"
#include "planner/search/moves_choice.hpp"
#include "planner/search/search.hpp"
#include "planner/search/window_search.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/positions.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::spread_test {
namespace {

using model::BufferKind;
using model::Range;
using planner::Plan;

constexpr std::int32_t kOpen = model::kCausal.end;

planner::Request request_of(std::vector<double> memory, planner::Workload workload) {
  std::vector<DeviceSpec> devices;
  for (const double bytes : memory) devices.push_back({.memory_bytes = bytes});
  model::Transformer transformer = small_model({.layers = 3, .heads = 6, .kv_heads = 2});
  transformer.max_context = 2048;
  return {.model = std::move(transformer),
          .cluster = star_cluster(devices),
          .strategy = "spread",
          .partition = "equal",
          .workload = workload};
}
Plan plan_of(std::vector<double> memory, planner::Workload workload) {
  return std::get<Plan>(planner::make_plan(request_of(std::move(memory), workload)));
}

TEST_CASE("planner/spread: parts follow one another, and new tokens go to the device with room") {
  using Parts = std::vector<planner::PositionPart>;
  CHECK(planner::position_parts(plan_of({1e9, 1e9, 1e9}, {10, 4})) ==
        Parts{{1, {0, 4}}, {2, {4, 7}}, {0, {7, kOpen}}});
  CHECK(planner::position_parts(plan_of({1e9, 2e9, 1e9}, {10, 4})) ==
        Parts{{0, {0, 4}}, {2, {4, 7}}, {1, {7, kOpen}}});
  // Fewer than two positions a device are not parted.
  CHECK(planner::position_parts(plan_of({1e9, 1e9, 1e9}, {5, 4})) ==
        Parts{{1, {0, 0}}, {2, {0, 0}}, {0, {0, kOpen}}});
  CHECK(planner::position_parts(plan_of({1e9, 1e9}, {4, 4})) ==
        Parts{{1, {0, 2}}, {0, {2, kOpen}}});
}

TEST_CASE("planner/spread: a new token asks every other part: (N - 1) L (2 H d e + 8 H) bytes") {
  for (const int devices : {1, 2, 3, 5}) {
    for (const int room : {0, devices - 1}) {
      std::vector<double> memory(static_cast<std::size_t>(devices), 1e9);
      memory[static_cast<std::size_t>(room)] = 2e9;
      const Plan plan = plan_of(memory, {10, 4});
      const model::TaskGraph token =
          planner::find_strategy("spread").lower(plan, planner::decode_batch(10));
      const auto& m = plan.model;
      const double asked = (devices - 1.0) * static_cast<double>(m.layers * m.heads);
      CAPTURE(devices);
      CAPTURE(room);
      CHECK(sent(token, BufferKind::query) == asked * static_cast<double>(m.head_dim) * 4.0);
      CHECK(sent(token, BufferKind::attention) == asked * static_cast<double>(m.head_dim) * 4.0);
      CHECK(sent(token, BufferKind::softmax) == asked * 8.0);
      CHECK(sent(token, BufferKind::key_value) == 0.0);
      // To the owner and back, unless it is the master.
      CHECK(sent(token, BufferKind::hidden) ==
            (room == 0 ? 0.0 : 2.0 * 4.0 * static_cast<double>(m.hidden)));
    }
  }
}

TEST_CASE("planner/spread: rows of a prompt ask the parts before their own") {
  // Parts of 4, 3 and 3 rows: 1 x 3 + 2 x 3 questions of a row, and of the last layer 2.
  const Plan plan = plan_of({1e9, 1e9, 1e9}, {10, 4});
  const model::TaskGraph prompt =
      planner::find_strategy("spread").lower(plan, planner::prompt_batch({10, 4}));
  const double asked = static_cast<double>(plan.model.heads) * (2 * (1 * 3 + 2 * 3) + 2);
  const double width = 4.0 * static_cast<double>(plan.model.head_dim);
  CHECK(sent(prompt, BufferKind::query) == asked * width);
  CHECK(sent(prompt, BufferKind::attention) == asked * width);
  CHECK(sent(prompt, BufferKind::softmax) == asked * 8.0);
}

TEST_CASE("planner/spread: parts that a window does not reach are not asked") {
  planner::Request request = request_of({1e9, 1e9, 1e9}, {30, 4});
  request.model.windowed = {true, true, true};
  // Parts end at 10, 20 and 30: the token at 30 sees 19 with a window of 12, but not with one
  // of 11.
  for (const auto& [window, asked] : std::vector<std::pair<std::int64_t, int>>{
           {40, 2}, {22, 2}, {21, 1}, {12, 1}, {11, 0}, {1, 0}}) {
    request.model.window = window;
    const Plan plan = std::get<Plan>(planner::make_plan(request));
    const model::TaskGraph token =
        planner::find_strategy("spread").lower(plan, planner::decode_batch(30));
    CAPTURE(window);
    CHECK(sent(token, BufferKind::softmax) ==
          8.0 * asked * static_cast<double>(plan.model.layers * plan.model.heads));
  }
}

TEST_CASE("planner/spread: graphs are in order, declare what they use, and depend on no past") {
  const planner::Strategy& strategy = planner::find_strategy("spread");
  for (const int devices : {1, 2, 3, 5}) {
    for (const std::int64_t prompt : {1, 2, 4, 9}) {
      CAPTURE(devices);
      CAPTURE(prompt);
      const Plan plan =
          plan_of(std::vector<double>(static_cast<std::size_t>(devices), 1e9), {prompt, 5});
      const model::TaskGraph first = strategy.lower(plan, planner::prompt_batch({prompt, 5}));
      const model::TaskGraph token =
          strategy.lower(plan, planner::decode_batch(static_cast<std::int32_t>(prompt)));
      for (const model::TaskGraph* graph : {&first, &token}) {
        CHECK(model::find_conflict(*graph).value_or("") == "");
        CHECK(model::undeclared(*graph).empty());
      }
      if (prompt == 1) continue;  // the prompt is such a step
      const model::TaskGraph warm_up = strategy.lower(plan, planner::decode_batch(0));
      CHECK(warm_up.size() == token.size());
    }
  }
}

TEST_CASE("planner/spread: parts follow proportions, and stand in the plan file") {
  planner::Request request = request_of({1e9, 1e9, 1e9}, {100, 4});
  request.partition = "1:2:1";
  const Plan plan = std::get<Plan>(planner::make_plan(request));
  using Parts = std::vector<planner::PositionPart>;
  CHECK(planner::position_parts(plan) == Parts{{1, {0, 50}}, {2, {50, 75}}, {0, {75, kOpen}}});
  CHECK(planner::parse_plan_json(planner::to_json(plan), "plan") == plan);
  request.allreduce = "auto";
  CHECK(planner::position_parts(std::get<Plan>(planner::make_plan(request))).size() == 3);
  request.allreduce.reset();
  request.partition = "1:1000:1000";
  const auto answer = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Infeasible>(answer));
  CHECK(std::get<planner::Infeasible>(answer).reason.find("less than one position") !=
        std::string::npos);
  request.partition = "exact";
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request),
                       doctest::Contains("expected auto, galaxy, equal or proportions"), Error);
}

TEST_CASE("planner/spread: a device with little memory keeps few positions") {
  planner::Request request = request_of({1e9, 1e9, 1e9}, {1000, 24});
  // Caches that are large beside messages.
  request.model = small_model({.layers = 12, .heads = 6, .kv_heads = 6});
  request.model.max_context = 2048;
  const Plan equal = std::get<Plan>(planner::make_plan(request));
  // Three blocks less than equal parts take of device 1: 333 positions begin anywhere in 6 or 7.
  const auto& m = request.model;
  const double block =
      static_cast<double>(m.layers * 2 * m.kv_heads * m.head_dim * 4 * model::kCacheBlock);
  const double small = equal.devices[1].memory.total() - 3.0 * block;
  request.cluster = request_of({1e9, small, 1e9}, {1000, 24}).cluster;
  CHECK(std::holds_alternative<planner::Infeasible>(planner::make_plan(request)));
  for (const char* const partition : {"galaxy", "auto"}) {
    CAPTURE(std::string(partition));
    request.partition = partition;
    const auto answer = planner::make_plan(request);
    if (const auto* no = std::get_if<planner::Infeasible>(&answer)) FAIL(no->reason);
    const Plan& plan = std::get<Plan>(answer);
    const Range few = plan.devices[1].share.part.positions;
    CHECK(few.size() >= 64);
    CHECK(few.size() <= 4 * 64);
    std::int32_t all = 0;
    for (std::size_t d = 0; d < plan.devices.size(); ++d) {
      all += plan.devices[d].share.part.positions.size();
      CHECK(plan.devices[d].memory.total() <= plan.cluster.devices()[d].memory.value());
    }
    CHECK(all == 1000);
  }
}

TEST_CASE("planner/spread: where parts are chosen, it is never slower than with equal ones") {
  for (const std::int64_t prompt : {7, 60, 700}) {
    for (const double slow : {1.0, 4.0}) {
      planner::Request request = request_of({1e9, 1e9, 1e9}, {prompt, 4});
      std::vector<model::Device> devices = request.cluster.devices();
      for (model::Device& device : devices) device.flop_rate = model::FlopsPerSecond{1e7};
      devices[1].flop_rate = model::FlopsPerSecond{1e7 / slow};
      request.cluster = {"star", devices, request.cluster.routers(), request.cluster.links(),
                         request.cluster.edges()};
      const double equal =
          planner::predicted_request_time(std::get<Plan>(planner::make_plan(request)));
      request.partition = "auto";
      const double chosen =
          planner::predicted_request_time(std::get<Plan>(planner::make_plan(request)));
      CAPTURE(prompt);
      CAPTURE(slow);
      CHECK(chosen <= equal * (1.0 + 1e-9));
      // The first part is asked by everybody.
      if (prompt == 700) CHECK(chosen < equal);
    }
  }
}

TEST_CASE("planner/spread: parts that overlap, leave some out or are of no such strategy") {
  const auto refused = [](const Plan& plan, const char* reason) {
    CHECK_THROWS_WITH_AS(plan.validate(), doctest::Contains(reason), Error);
  };
  const Plan plan = plan_of({1e9, 1e9, 1e9}, {10, 4});
  Plan bad = plan;
  bad.devices[2].share.part.positions = {5, 7};
  refused(bad, "expected them to begin at 4, where the part before ends");
  bad = plan;
  bad.devices[0].share.part.positions = {7, 9};
  refused(bad, "end at 9: expected all 10 of the prompt");
  bad.devices[0].share.part.positions = {7, 11};
  refused(bad, "positions that it keeps: [7, 11): expected a range within [0, 10)");
  bad = plan;
  bad.devices[0].share.part.heads = {0, 1};
  refused(bad, "computes a part of its share: expected none");
  bad = plan;
  bad.devices[1].share.part.columns = {0, 3};
  refused(bad, "of new tokens end at 3: expected all 6");
  bad.devices[2].share.part.columns = {2, 6};
  refused(bad, "computes FFN columns [2, 6) of new tokens: expected them to begin at 3");
  bad.devices[2].share.part.columns = {3, 7};
  refused(bad, "FFN columns that it computes: [3, 7): expected a range within [0, 6)");
  bad.devices[2].share.part.columns = {3, 6};
  bad.validate();
  bad.workload.new_tokens = 1;
  refused(bad, "expected none with fewer than 2 new tokens");
  planner::Request request = request_of({1e9, 1e9, 1e9}, {10, 4});
  for (const char* const other : {"csps", "sp"}) {
    request.strategy = other;
    bad = std::get<Plan>(planner::make_plan(request));
    bad.devices[0].share.part.positions = {0, 10};
    refused(bad, "keeps positions of the prompt: expected none");
    request.token_ffn = planner::TokenFfn::shared;
    CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("expected 'spread'"),
                         Error);
    request.token_ffn = planner::TokenFfn::owner;
    bad = std::get<Plan>(planner::make_plan(request));
    bad.decode_moves = planner::DecodeMoves::keys_each_step;
    refused(bad, "keys and values that move ('decode_moves' kv)");
  }
}

TEST_CASE(
    "planner/spread: keys and values that move: (N - 1) L 4 + L 2 K d e bytes a position "
    "elsewhere") {
  planner::Request request = request_of({1e9, 1e9, 1e9, 1e9}, {100, 8});
  request.decode_moves = planner::DecodeMoves::keys_each_step;
  for (const char* const partition : {"equal", "1:1:5:2"}) {
    for (const std::int64_t window : {0, 30}) {
      request.partition = partition;
      request.model.window = window;
      request.model.windowed = std::vector<bool>(window > 0 ? 3 : 0, true);
      const Plan plan = std::get<Plan>(planner::make_plan(request));
      const model::TaskGraph token =
          planner::find_strategy("spread").lower(plan, planner::decode_batch(100));
      CHECK(model::find_conflict(token).value_or("") == "");
      CHECK(model::undeclared(token).empty());
      const auto& m = plan.model;
      const std::vector<planner::PositionPart> parts = planner::position_parts(plan);
      const std::int32_t own = parts.back().positions.begin;
      const std::int32_t first = window == 0 ? 0 : std::min<std::int32_t>(own, 100 + 1 - 30);
      std::int64_t asked = 0;
      for (const planner::PositionPart& part : parts)
        asked += part.positions.end > first && part.positions.end <= own ? 1 : 0;
      CAPTURE(std::string(partition));
      CAPTURE(window);
      CHECK(sent(token, BufferKind::key_value) ==
            static_cast<double>(m.layers * 2 * m.kv_heads * m.head_dim * 4 * (own - first)));
      CHECK(sent(token, BufferKind::hidden) == static_cast<double>(4 * m.layers * asked));
      CHECK(sent(token, BufferKind::query) == 0.0);
      CHECK(sent(token, BufferKind::softmax) == 0.0);
      // Room for others' keys and values of one layer, at their owner alone.
      for (std::size_t d = 0; d < plan.devices.size(); ++d) {
        const auto* const room = model::find_buffer(
            token.declared(static_cast<model::DeviceIndex>(d)), {BufferKind::remote_kv});
        REQUIRE((room != nullptr) == (d == 0));
        if (room != nullptr) CHECK(room->blocks == model::cache_blocks(own));
      }
      if (window == 0) CHECK(planner::parse_plan_json(planner::to_json(plan), "plan") == plan);
    }
  }
}

TEST_CASE(
    "planner/spread: a migrated cache: L 2 K d e bytes a position elsewhere, and (N - 1) (L - 2) 4 "
    "of questions") {
  const planner::Strategy& strategy = planner::find_strategy("spread");
  for (const int devices : {2, 4}) {
    for (const std::int64_t window : {0, 30}) {
      planner::Request request =
          request_of(std::vector<double>(static_cast<std::size_t>(devices), 1e9), {100, 8});
      request.model.layers = 6;
      request.model.window = window;
      request.model.windowed = std::vector<bool>(window > 0 ? 6 : 0, true);
      const Plan stays = std::get<Plan>(planner::make_plan(request));
      request.decode_moves = planner::DecodeMoves::keys_once;
      const Plan plan = std::get<Plan>(planner::make_plan(request));
      const model::TaskGraph before = strategy.lower(stays, planner::prompt_batch({100, 8}));
      const model::TaskGraph prompt = strategy.lower(plan, planner::prompt_batch({100, 8}));
      const model::TaskGraph token = strategy.lower(plan, planner::decode_batch(100));
      CAPTURE(devices);
      CAPTURE(window);
      for (const model::TaskGraph* graph : {&prompt, &token}) {
        CHECK(model::find_conflict(*graph).value_or("") == "");
        CHECK(model::undeclared(*graph).empty());
      }
      const auto& m = plan.model;
      const std::vector<planner::PositionPart> parts = planner::position_parts(plan);
      const std::int32_t own = parts.back().positions.begin;
      const std::int32_t first = window == 0 ? 0 : std::min<std::int32_t>(own, 100 + 1 - 30);
      double asked = 0.0;
      for (const planner::PositionPart& part : parts)
        asked += part.positions.end > first && part.positions.end <= own ? 1.0 : 0.0;
      CHECK(sent(prompt, BufferKind::key_value) ==
            static_cast<double>(m.layers * 2 * m.kv_heads * m.head_dim * 4 * (own - first)));
      CHECK(sent(prompt, BufferKind::hidden) - sent(before, BufferKind::hidden) ==
            4.0 * asked * static_cast<double>(m.layers - 2));
      CHECK(sent(prompt, BufferKind::query) == sent(before, BufferKind::query));
      // Nobody gets what it has, and only the master gets anything.
      for (const model::Task& task : prompt.tasks()) {
        if (task.kind != model::TaskKind::transfer || task.input.kind != BufferKind::key_value)
          continue;
        CHECK(task.peer == plan.master);
        CHECK(task.rows.end <= own);
      }
      CHECK(token.tasks().size() ==
            planner::find_strategy("local")
                .lower(std::get<Plan>(planner::make_plan({.model = m,
                                                          .cluster = star_cluster({{}}),
                                                          .strategy = "local",
                                                          .workload = {100, 8}})),
                       planner::decode_batch(100))
                .tasks()
                .size());
      // Messages under option take room for two layers, not six.
      const double layer = static_cast<double>(2 * m.kv_heads * m.head_dim * 4 * own);
      CHECK(plan.devices[0].memory.buffers - stays.devices[0].memory.buffers < 3.0 * layer);
    }
  }
}

TEST_CASE("planner/spread: keys and values migrate only where tokens follow, and to the master") {
  planner::Request request = request_of({1e9, 2e9, 1e9}, {10, 4});
  request.decode_moves = planner::DecodeMoves::keys_once;
  const Plan plan = std::get<Plan>(planner::make_plan(request));
  using Parts = std::vector<planner::PositionPart>;
  CHECK(planner::position_parts(plan) == Parts{{1, {0, 4}}, {2, {4, 7}}, {0, {7, kOpen}}});
  CHECK(planner::parse_plan_json(planner::to_json(plan), "plan") == plan);
  Plan bad = plan;
  std::swap(bad.devices[0].share.part.positions, bad.devices[1].share.part.positions);
  bad.devices[0].share.part.positions = {0, 3};
  bad.devices[2].share.part.positions = {3, 6};
  bad.devices[1].share.part.positions = {6, 10};
  CHECK_THROWS_WITH_AS(bad.validate(), doctest::Contains("expected the master to"), Error);
  request.workload.new_tokens = 1;
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request),
                       doctest::Contains("expected none with fewer than 2 new tokens (here 1)"),
                       Error);
  request.workload.new_tokens = 4;
  request.strategy = "csps";
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request),
                       doctest::Contains("expected none without levels"), Error);
  request.decode_moves = planner::DecodeMoves::keys_each_step;
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request),
                       doctest::Contains("expected q or migrate with strategy 'csps'"), Error);
}

TEST_CASE("planner/spread: of what may travel the planner takes what is fastest within memory") {
  const auto chosen = [](planner::Request request) {
    request.evaluate = model::evaluate_analytic;
    planner::SearchEffort unlimited;
    return planner::choose_moves(request, unlimited);
  };
  planner::Request request = request_of({1e9, 1e9, 1e9}, {600, 2});
  const auto of = [&](std::int64_t tokens, const planner::Request& from) {
    planner::Request one = from;
    one.workload.new_tokens = tokens;
    return chosen(one);
  };
  for (const std::int64_t tokens : {1, 2, 400}) {
    const planner::DecodeChoice choice = of(tokens, request);
    CAPTURE(tokens);
    REQUIRE(choice.options.size() == 3);
    REQUIRE(choice.best().plan);
    CHECK(choice.best().plan->decode_moves == choice.best().moves);
    for (const planner::DecodeOption& option : choice.options) {
      if (option.plan) CHECK(choice.best().seconds <= option.seconds);
    }
    // A migration is paid for once, questions by every token.
    using enum planner::DecodeMoves;
    CHECK(choice.best().moves == (tokens == 400 ? keys_once : queries));
    CHECK(choice.options[2].plan.has_value() == (tokens > 1));
    const std::string text = describe(choice, planner::Objective::request);
    CHECK(text.find("; taken: " + std::string(to_string(choice.best().moves))) !=
          std::string::npos);
  }
  // What the master has no memory for it does not take.
  const Plan stays = *of(400, request).options[0].plan;
  std::vector<double> little{stays.devices[0].memory.total(), 1e9, 1e9};
  planner::Request tight = request_of(little, {600, 400});
  const planner::DecodeChoice choice = chosen(tight);
  CHECK(choice.best().moves != planner::DecodeMoves::keys_once);
  CHECK(!choice.options[2].plan.has_value());
  CHECK(describe(choice, planner::Objective::request).find("migrate: no plan") !=
        std::string::npos);
}

TEST_CASE("planner/spread: a cache of more blocks than a declaration counts is refused") {
  constexpr std::int64_t kMost = 32767;  // of 64 positions
  Plan plan = plan_of({1e15, 1e15}, {10, 2});
  plan.model.max_context = 4'000'000;
  const auto with = [&](std::int64_t prompt) {
    plan.workload.prompt_tokens = prompt;
    const auto half = static_cast<std::int32_t>(prompt / 2);
    plan.devices[1].share.part.positions = {0, half};
    plan.devices[0].share.part.positions = {half, static_cast<std::int32_t>(prompt)};
  };
  with(kMost * model::kCacheBlock - 1);  // and one new token
  CHECK_NOTHROW(plan.validate());
  with(kMost * model::kCacheBlock);
  CHECK_THROWS_WITH_AS(plan.validate(),
                       doctest::Contains("2097089 positions with strategy 'spread': expected at "
                                         "most 2097088; plan for fewer tokens"),
                       Error);
  // One device's part alone, in a plan that is still to be made.
  with(kMost * model::kCacheBlock + 1);
  plan.devices[1].share.part.positions = {0, 1};
  plan.devices[0].share.part.positions = {1, kMost * model::kCacheBlock + 1};
  const planner::Strategy& strategy = planner::find_strategy("spread");
  CHECK_THROWS_WITH_AS((void)strategy.buffers_of(plan, 0, plan.devices[0].share, false),
                       doctest::Contains("a cache of 32768 blocks of positions at one device, "
                                         "expected at most 32767"),
                       Error);
}

TEST_CASE("planner/spread: what it does not serve is refused by name") {
  const auto refused = [](const planner::Request& request, const char* reason) {
    CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains(reason), Error);
  };
  planner::Request request = request_of({1e9, 1e9}, {10, 4});
  request.capacity = {.rows = 10, .positions = 128, .sequences = 2, .steps = 1};
  CHECK(std::holds_alternative<Plan>(planner::make_plan(request)));
  request.decode_moves = planner::DecodeMoves::keys_each_step;
  refused(request, "keys and values that move ('decode_moves' kv), expected queries");
  const Plan plan = plan_of({1e9, 1e9}, {10, 4});
  const planner::Strategy& strategy = planner::find_strategy("spread");
  // As schedulers make them: also what could be lowered, as a prompt of one token that it is not.
  planner::GraphCache served(plan);
  for (const model::Batch& batch : {planner::prompt_batch({1, 1}), planner::prompt_batch({10, 4})})
    CHECK_THROWS_WITH_AS((void)served.graph_of(batch), doctest::Contains("many requests"), Error);
  CHECK_THROWS_WITH_AS((void)strategy.lower(plan, planner::scored_batch(7, 3)),
                       doctest::Contains("expected the plan's prompt of 10 tokens"), Error);
  CHECK_THROWS_WITH_AS(
      (void)strategy.lower(plan, {{{.sequence = 0, .past = 4}, {.sequence = 1, .past = 1}}}),
      doctest::Contains("2 sequences"), Error);
}

}  // namespace
}  // namespace tandem::test::spread_test
