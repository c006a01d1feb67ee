// Strategies that part rows: galaxy and sp.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/conflicts.hpp"
#include "model/graph/work.hpp"
#include "planner/search/allreduce_search.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/rows.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/planner/planner_interpreter.hpp"
#include "tests/support/collective_fixture.hpp"

namespace tandem::test::galaxy_test {
namespace {

using model::Range;
using model::Task;
using model::TaskKind;
using planner::Plan;
using planner::Split;

planner::Proximity in_order(const Plan& plan) { return planner::wiring(plan.cluster, plan.master); }

Plan galaxy_plan(const ModelSizes& sizes, model::DeviceIndex master, const Split& split,
                 const std::string& allreduce, std::int32_t tiles) {
  Plan plan = plan_of("galaxy", sizes, master, split);
  plan.allreduce = {allreduce, "star"};
  plan.tiles = tiles;
  plan.validate();
  return plan;
}

// Every device with everything.
Plan sp_plan(const ModelSizes& sizes, model::DeviceIndex master, int devices,
             const std::string& allreduce) {
  std::vector<std::int64_t> heads(static_cast<std::size_t>(devices), 0);
  std::vector<std::int64_t> columns = heads;
  heads[static_cast<std::size_t>(master)] = sizes.heads;
  columns[static_cast<std::size_t>(master)] = sizes.intermediate;
  Plan plan = plan_of("local", sizes, master, {heads, columns});
  plan.strategy = "sp";
  plan.allreduce = {allreduce, allreduce};
  plan.layout = in_order(plan);
  const model::Share whole = plan.devices[static_cast<std::size_t>(master)].share;
  for (model::DeviceIndex d = 0; d < devices; ++d) {
    model::Share& share = plan.devices[static_cast<std::size_t>(d)].share;
    share = whole;
    share.embedding = share.head = d == master;
  }
  plan.validate();
  return plan;
}

void check_graphs(const Plan& plan) {
  const planner::Strategy& strategy = planner::find_strategy(plan.strategy);
  for (const model::Batch& batch :
       {planner::prompt_batch({5, 1}), planner::prompt_batch({2, 1}), planner::scored_batch(4, 3),
        model::Batch{{{.sequence = 2, .rows = 3}, {.sequence = 0, .past = 4}}}}) {
    const model::TaskGraph graph = strategy.lower(plan, batch);
    CHECK(model::find_conflict(graph).value_or("") == "");
    CHECK(model::undeclared(graph).empty());
  }
}

struct Given {
  ModelSizes sizes;
  model::DeviceIndex master;
  Split split;
};

std::vector<Given> shares() {
  const ModelSizes mha{.heads = 7, .kv_heads = 7, .intermediate = 13};
  const ModelSizes gqa{.layers = 3, .heads = 8, .kv_heads = 2, .intermediate = 11};
  return {{mha, 0, {{7}, {13}}},
          {mha, 1, {{5, 2}, {1, 12}}},
          {gqa, 0, {{3, 3, 2}, {5, 3, 3}}},
          {{.layers = 1, .heads = 5, .kv_heads = 1, .head_dim = 4, .intermediate = 5},
           4,
           {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}},
          // Devices without rows: they lack heads, or columns; the master among them.
          {gqa, 0, {{4, 0, 4}, {3, 5, 3}}},
          {gqa, 1, {{4, 0, 4}, {3, 5, 3}}},
          {gqa, 2, {{4, 3, 1}, {8, 3, 0}}}};
}

TEST_CASE("planner/galaxy: gives the unsharded model's logits, whoever has rows, tile by tile") {
  for (const Given& given : shares()) {
    for (const std::int32_t tiles : {0, 1, 3}) {
      for (const char* allreduce : {"ring", "star", "halving", "hierarchical"}) {
        if (tiles == 3 && std::string(allreduce) != "ring") continue;
        CAPTURE(given.split.heads);
        CAPTURE(given.master);
        CAPTURE(tiles);
        CAPTURE(allreduce);
        const Plan plan = galaxy_plan(given.sizes, given.master, given.split, allreduce, tiles);
        check_graphs(plan);
        check_batches(plan, true);
      }
    }
  }
}

TEST_CASE("planner/sp: gives the unsharded model's logits on any number of devices") {
  const ModelSizes gqa{.layers = 3, .heads = 8, .kv_heads = 2, .intermediate = 11};
  for (const int devices : {1, 2, 3, 5}) {
    for (const char* allreduce : {"ring", "star", "halving", "hierarchical"}) {
      CAPTURE(devices);
      CAPTURE(allreduce);
      const Plan plan = sp_plan(gqa, devices / 2, devices, allreduce);
      check_graphs(plan);
      check_batches(plan, true);
    }
  }
}

double bytes_of(const Plan& plan, const model::TaskGraph& graph) {
  double bytes = 0.0;
  for (const Task& task : graph.tasks())
    bytes += model::work_of(plan.model, graph.batch(), task).bytes_wire;
  return bytes;
}

TEST_CASE("planner/galaxy: sends e h (R - S_M + (4 L - 1) (N - 1) R + (N - 1) W + W - W_M) bytes") {
  for (const char* allreduce : {"ring", "star", "halving"}) {
    for (const std::int32_t tiles : {0, 1, 2}) {
      CAPTURE(allreduce);
      CAPTURE(tiles);
      const Plan plan = galaxy_plan({.layers = 3, .heads = 6, .kv_heads = 3}, 0,
                                    {{2, 2, 1, 1}, {2, 2, 1, 1}}, allreduce, tiles);
      const auto sent = [&](std::int32_t rows, std::int32_t wanted) {
        return bytes_of(plan, planner::find_strategy("galaxy").lower(
                                  plan, planner::scored_batch(rows, wanted)));
      };
      const double row = 4.0 * static_cast<double>(plan.model.hidden);
      // The master has 3 of 10 rows; the last row is another device's.
      CHECK(sent(10, 1) == row * (10 - 3 + (4 * 3 - 1) * 3 * 10 + 3 * 1 + 1));
      // All rows: of them 3 are the master's.
      CHECK(sent(10, 10) == row * (10 - 3 + (4 * 3 - 1) * 3 * 10 + 3 * 10 + 10 - 3));
      CHECK(sent(10, 0) == row * (10 - 3 + (4 * 3 - 1) * 3 * 10));
    }
  }
}

TEST_CASE("planner/sp: sends e (h (R - S_M) + L (N - 1) R 2 K d + h (W - W_M)) bytes") {
  const Plan plan = sp_plan({.layers = 3, .heads = 6, .kv_heads = 3}, 0, 4, "ring");
  const planner::Strategy& strategy = planner::find_strategy("sp");
  const double hidden = static_cast<double>(plan.model.hidden);
  CHECK(bytes_of(plan, strategy.lower(plan, planner::scored_batch(10, 1))) ==
        4.0 * (hidden * (10 - 3) + 3 * 3 * 10 * 2 * 3 * 2 + hidden * 1));
  CHECK(bytes_of(plan, strategy.lower(plan, planner::decode_batch(10))) == 0.0);
}

TEST_CASE("planner/galaxy: parts of more rows are no smaller, and differ by one") {
  for (std::int32_t parts = 1; parts <= 7; ++parts) {
    for (std::int32_t total = 0; total < 40; ++total) {
      const auto now = planner::equal_parts(total, parts);
      const auto next = planner::equal_parts(total + 1, parts);
      for (std::size_t i = 0; i < now.size(); ++i) CHECK(next[i] >= now[i]);
      CHECK(now.front() - now.back() <= 1);
    }
  }
}

// A prompt's time on a mesh that nothing shares.
double prompt_time(const Plan& plan) {
  planner::GenerationSteps steps(plan, {plan.workload.prompt_tokens, 1});
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  model::evaluate_analytic(plan.cluster, plan.cost_model(), steps, recorder);
  return recorder.metrics().ttft_s;
}

Plan planned(const std::string& strategy, const model::Cluster& cluster,
             std::optional<std::int32_t> tiles) {
  planner::Request request{.model = small_model({.layers = 4,
                                                 .heads = 8,
                                                 .kv_heads = 8,
                                                 .head_dim = 16,
                                                 .intermediate = 512,
                                                 .vocab = 50}),
                           .cluster = cluster,
                           .strategy = strategy,
                           .partition = "equal",
                           .tiles = tiles,
                           .workload = {64, 1}};
  request.model.max_context = 128;
  auto made = planner::make_plan(request);
  REQUIRE(std::holds_alternative<Plan>(made));
  return std::get<Plan>(std::move(made));
}

TEST_CASE("planner/galaxy: tiles hide messages behind products, and auto takes the fastest") {
  // Devices that compute a layer in about the time of its messages, with weights that cost nothing
  // to stream anew.
  std::vector<model::Device> devices;
  model::Cluster mesh = mesh_of(4, 1e-6, 3e7);
  for (model::Device device : mesh.devices()) {
    device.flop_rate = model::FlopsPerSecond{5e9};
    device.memory_bandwidth = model::BytesPerSecond{1e15};
    devices.push_back(device);
  }
  mesh = {mesh.name(), devices, mesh.routers(), mesh.links(), mesh.edges()};
  const double none = prompt_time(planned("galaxy", mesh, 0));
  const double one = prompt_time(planned("galaxy", mesh, 1));
  const double two = prompt_time(planned("galaxy", mesh, 2));
  CAPTURE(none);
  CAPTURE(one);
  CAPTURE(two);
  CHECK(one < 0.9 * none);
  const Plan fastest = planned("galaxy", mesh, std::nullopt);
  CAPTURE(fastest.tiles);
  CHECK(prompt_time(fastest) <= std::min({none, one, two}) * (1.0 + 1e-9));
  // What is computed takes as long as without: the rest of the time is hidden.
  const double local = prompt_time(planned("local", mesh, std::nullopt));
  CHECK(one > local / 4.0);
}

// A search for tiles times new tokens once for all of them.
TEST_CASE("planner/galaxy: tiles change a prompt's step, and no new token's") {
  for (const char* strategy : {"galaxy", "csps"}) {
    CAPTURE(strategy);
    Plan plan = planned(strategy, mesh_of(4, 1e-4, 3e7), 0);
    plan.workload = {.prompt_tokens = 64, .new_tokens = 16};
    const double prompt = trial_prompt_time(plan, model::evaluate_analytic);
    const double tokens = trial_tokens_time(plan, model::evaluate_analytic);
    CHECK(tokens > 0.0);
    for (const std::int32_t tiles : {1, 2, 4}) {
      CAPTURE(tiles);
      plan.tiles = tiles;
      CHECK(trial_prompt_time(plan, model::evaluate_analytic) != prompt);
      CHECK(trial_tokens_time(plan, model::evaluate_analytic) == tokens);
    }
  }
}

TEST_CASE("planner/galaxy: tiles, windows and sequences that there are not are one clear error") {
  planner::Request request{.model = small_model({}),
                           .cluster = star_cluster(std::vector<DeviceSpec>(2)),
                           .strategy = "galaxy",
                           .tiles = 65,
                           .workload = {5, 3}};
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("0 to 64"), Error);
  request.strategy = "tensor";
  request.tiles = 1;
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("has none"), Error);
  request.strategy = "sp";
  request.tiles = std::nullopt;
  request.window.blocks = 1;
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request),
                       doctest::Contains("keeps all weights in memory"), Error);
  Plan plan = sp_plan({}, 0, 2, "ring");
  plan.capacity = {.rows = 5, .positions = 8, .sequences = 2, .steps = 1};
  CHECK_THROWS_WITH_AS(plan.validate(), doctest::Contains("expected one at a time"), Error);
  CHECK_THROWS_WITH_AS((void)galaxy_plan({}, 0, {{4, 0}, {0, 6}}, "ring", 1),
                       doctest::Contains("both heads and FFN columns"), Error);
}

TEST_CASE("planner/sp: is out of memory where one device cannot hold the model") {
  planner::Request request{.model = small_model({.layers = 4, .heads = 8, .kv_heads = 8}),
                           .cluster = star_cluster({{}, {1e9, 12e3}}),
                           .strategy = "sp",
                           .workload = {5, 3}};
  const auto no = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Infeasible>(no));
  CHECK(std::get<planner::Infeasible>(no).reason.find("'d1'") != std::string::npos);
}

TEST_CASE("planner/galaxy: where nobody has room for a head and columns, there is no plan") {
  // A head is larger than all columns; the first device has room for the one and little more, the
  // other for the others.
  const ModelSizes sizes{.heads = 1, .kv_heads = 1, .head_dim = 128, .intermediate = 96};
  const model::Transformer transformer = small_model(sizes);
  const double head = static_cast<double>(sizes.layers) *
                      static_cast<double>(transformer.attention_bytes(0, {0, 1}));
  const double columns =
      static_cast<double>(sizes.layers) * static_cast<double>(transformer.ffn_bytes(0, {0, 96}));
  REQUIRE(head > 1.2 * columns);
  bool refused = false;
  const double program = model::nominal_profile(star_cluster({{}}).devices()[0]).program_bytes;
  for (double more = 0.0; more < 2e6; more += 5e3) {
    CAPTURE(more);
    planner::Request request{.model = transformer,
                             .cluster = star_cluster({{.memory_bytes = program + head + more},
                                                      {.memory_bytes = program + columns + more}}),
                             .strategy = "galaxy",
                             .workload = {.prompt_tokens = 5, .new_tokens = 3},
                             .window = {.blocks = 0, .retain = {}}};
    for (const char* const partition : {"auto", "galaxy", "exact"}) {
      request.partition = partition;
      const auto made = planner::make_plan(request);
      if (const auto* const no = std::get_if<planner::Infeasible>(&made))
        refused = refused || no->reason.starts_with("no device has room for both a head and FFN");
    }
    if (more > head) break;
  }
  CHECK(refused);
  const Plan plan = galaxy_plan(sizes, 0, {{1, 0}, {1, 95}}, "ring", 1);
  Plan tensor = plan;
  tensor.strategy = "tensor";
  const Split apart{{1, 0}, {0, 96}};
  CHECK(!planner::Budget(plan, {0.0, 0.0}).fits(apart));
  CHECK(planner::Budget(plan, {0.0, 0.0}).fits({{1, 0}, {1, 95}}));
  CHECK(planner::Budget(tensor, {0.0, 0.0}).fits(apart));
}

}  // namespace
}  // namespace tandem::test::galaxy_test
