// Caches spread by positions: who owns what, and what it costs to ask.

#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "model/conflicts.hpp"
#include "model/error.hpp"
#include "planner/graph_cache.hpp"
#include "planner/lowering.hpp"
#include "planner/search.hpp"
#include "planner/strategy/spread.hpp"
#include "planner_fixture.hpp"

namespace tandem::test {
namespace {

using model::BufferKind;
using model::Range;
using planner::Plan;

constexpr std::int32_t kOpen = model::kCausal.end;

planner::Request request_of(std::vector<double> memory, planner::Workload workload) {
  std::vector<DeviceSpec> devices;
  for (const double bytes : memory) devices.push_back({.memory_bytes = bytes});
  return {.model = small_model({.layers = 3, .heads = 6, .kv_heads = 2}),
          .cluster = star_cluster(devices),
          .strategy = "spread",
          .workload = workload};
}
Plan plan_of(std::vector<double> memory, planner::Workload workload) {
  return std::get<Plan>(planner::make_plan(request_of(std::move(memory), workload)));
}

double sent(const model::TaskGraph& graph, BufferKind of) {
  double bytes = 0.0;
  for (const model::Task& task : graph.tasks()) {
    if (task.kind == model::TaskKind::transfer && task.input.kind == of)
      bytes += static_cast<double>(model::payload_bytes(task));
  }
  return bytes;
}

TEST_CASE("planner/spread: parts follow one another, and new tokens go to the device with room") {
  using Parts = std::vector<planner::SpreadPart>;
  CHECK(planner::spread_parts(plan_of({1e9, 1e9, 1e9}, {10, 4})) ==
        Parts{{1, {0, 4}}, {2, {4, 7}}, {0, {7, kOpen}}});
  CHECK(planner::spread_parts(plan_of({1e9, 2e9, 1e9}, {10, 4})) ==
        Parts{{0, {0, 4}}, {2, {4, 7}}, {1, {7, kOpen}}});
  // Fewer than two positions a device are not parted.
  CHECK(planner::spread_parts(plan_of({1e9, 1e9, 1e9}, {5, 4})) ==
        Parts{{1, {0, 0}}, {2, {0, 0}}, {0, {0, kOpen}}});
  CHECK(planner::spread_parts(plan_of({1e9, 1e9}, {4, 4})) == Parts{{1, {0, 2}}, {0, {2, kOpen}}});
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

TEST_CASE("planner/spread: what it does not serve is refused by name") {
  const auto refused = [](const planner::Request& request, const char* reason) {
    CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains(reason), Error);
  };
  planner::Request request = request_of({1e9, 1e9}, {10, 4});
  request.capacity = {.rows = 10, .positions = 128, .sequences = 2, .steps = 1};
  refused(request, "expected one request");
  const Plan plan = plan_of({1e9, 1e9}, {10, 4});
  const planner::Strategy& strategy = planner::find_strategy("spread");
  // As schedulers make them: also what could be lowered, as a prompt of one token that it is not.
  planner::GraphCache served(plan);
  for (const model::Batch& batch : {planner::prompt_batch({1, 1}), planner::prompt_batch({10, 4})})
    CHECK_THROWS_WITH_AS((void)served.graph_of(batch), doctest::Contains("a workload of requests"),
                         Error);
  CHECK_THROWS_WITH_AS((void)strategy.lower(plan, planner::scored_batch(7, 3)),
                       doctest::Contains("expected the plan's prompt of 10 tokens"), Error);
  CHECK_THROWS_WITH_AS(
      (void)strategy.lower(plan, {{{.sequence = 0, .past = 4}, {.sequence = 1, .past = 1}}}),
      doctest::Contains("2 sequences"), Error);
}

}  // namespace
}  // namespace tandem::test
