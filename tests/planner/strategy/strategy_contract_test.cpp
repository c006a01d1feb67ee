// What every strategy of the table keeps, whatever its name: a new row is tested at once.

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/conflicts.hpp"
#include "model/predict/analytic.hpp"
#include "model/report/trace.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/planner/planner_interpreter.hpp"
#include "tests/planner/served_steps.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::test::strategy_contract_test {
namespace {

using model::DeviceIndex;
using model::Task;
using model::TaskGraph;
using model::TaskKind;
using planner::Plan;
using planner::Request;
using planner::Sharding;
using planner::Strategy;

constexpr int kDevices = 2;  // each has a row, two heads, a layer and positions of its own

Request request_of(const Strategy& strategy, int devices = kDevices) {
  return {.model = small_model({.layers = 4, .heads = 4, .kv_heads = 4}),
          .cluster = star_cluster(std::vector<DeviceSpec>(static_cast<std::size_t>(devices))),
          .strategy = strategy.name,
          .partition = "equal",
          .workload = {.prompt_tokens = 5, .new_tokens = 4}};
}

Plan planned(const Request& request) {
  auto answer = planner::make_plan(request);
  if (const auto* no = std::get_if<planner::Infeasible>(&answer)) FAIL(no->reason);
  return std::get<Plan>(std::move(answer));
}

// A request that asks for something that only some strategies have.
struct Wish {
  std::string name;
  std::function<bool(const Sharding&)> granted;
  std::function<void(Request&)> ask;
};

std::vector<Wish> wishes() {
  return {
      {"a window", &Sharding::may_stream, [](Request& r) { r.window.blocks = 2; }},
      {"tiles", &Sharding::exchanges_rows, [](Request& r) { r.tiles = 3; }},
      {"levels", &Sharding::exchanges_rows, [](Request& r) { r.sparse.emplace(); }},
      {"gathered weights", &Sharding::gather_weights, [](Request& r) { r.gather_weights = true; }},
      {"rounds", &Sharding::splits_layers, [](Request& r) { r.rounds = 2; }},
      {"a split head", &Sharding::may_split_head,
       [](Request& r) { r.head = planner::HeadPlacement::split; }},
      {"a shared FFN of new tokens", &Sharding::shares_token_ffn,
       [](Request& r) { r.token_ffn = planner::TokenFfn::shared; }},
      {"keys and values that move each time", &Sharding::splits_positions,
       [](Request& r) { r.decode_moves = planner::DecodeMoves::keys_each_step; }},
      {"keys and values that move once", &Sharding::splits_positions,
       [](Request& r) { r.decode_moves = planner::DecodeMoves::keys_once; }},
  };
}

void check_plan(const Plan& plan) {
  CHECK(planner::parse_plan_json(planner::to_json(plan), "a test") == plan);
  const std::vector<model::MemoryUse> memory = planner::predicted_memory(plan);
  for (std::size_t d = 0; d < memory.size(); ++d) CHECK(plan.devices[d].memory == memory[d]);
  const Strategy& strategy = planner::find_strategy(plan.strategy);
  for (const model::Batch& batch :
       {planner::prompt_batch(plan.workload), planner::decode_batch(5)}) {
    const TaskGraph graph = strategy.lower(plan, batch);
    CHECK(model::find_conflict(graph).value_or("") == "");
    CHECK(model::undeclared(graph).empty());
    for (DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
      const model::Share& share = plan.devices[static_cast<std::size_t>(d)].share;
      for (const model::BufferDeclaration& buffer : strategy.buffers_of(plan, d, share, false)) {
        const auto* const declared = model::find_buffer(graph.declared(d), buffer.name);
        CHECK(declared != nullptr);
      }
    }
  }
  if (!plan.sparse) check_generation(plan);  // the interpreter knows no lists
}

TEST_CASE("planner/contract: logits, order, declarations, memory and JSON of every strategy") {
  for (const Strategy& strategy : planner::strategies()) {
    for (int devices = 1; devices <= 3; ++devices) {
      for (const char* allreduce : {"star", "ring"}) {
        CAPTURE(strategy.name);
        CAPTURE(devices);
        CAPTURE(allreduce);
        Request request = request_of(strategy, devices);
        request.allreduce = allreduce;
        check_plan(planned(request));
      }
    }
  }
}

TEST_CASE("planner/contract: every strategy serves several requests") {
  std::vector<planner::InferenceRequest> requests;
  for (const std::int64_t prompt : {70, 5, 300, 1})
    requests.push_back(
        {.id = "r" + std::to_string(prompt), .prompt_tokens = prompt, .new_tokens = 3});
  for (const Strategy& strategy : planner::strategies()) {
    for (const std::int64_t chunk : {0, 40}) {
      CAPTURE(strategy.name);
      CAPTURE(chunk);
      // `sp` serves one at a time.
      const bool alone = strategy.sharding.joins_prompts_only() && strategy.placed == nullptr;
      const planner::Policy& policy = planner::find_policy(alone ? "sequential" : "continuous");
      if (alone && chunk > 0) continue;
      Request request = request_of(strategy);
      request.model.max_context = 512;
      const auto answer = planner::make_serving_plan(request, requests, policy, chunk);
      REQUIRE(std::holds_alternative<Plan>(answer));
      const Plan& plan = std::get<Plan>(answer);
      CHECK(planner::parse_plan_json(planner::to_json(plan), "a test") == plan);
      const std::vector<model::MemoryUse> memory = planner::predicted_memory(plan);
      for (std::size_t d = 0; d < memory.size(); ++d) CHECK(plan.devices[d].memory == memory[d]);
      planner::GraphCache graphs(plan);
      std::int64_t sampled = 0;
      for (const model::ServedStep& step : served_steps(plan, requests, policy, chunk)) {
        const TaskGraph& graph = graphs.graph_of(step.step.batch);
        CHECK(model::find_conflict(graph).value_or("") == "");
        CHECK(model::undeclared(graph).empty());
        for (const model::Segment& segment : step.step.batch.segments) sampled += segment.sampled;
      }
      CHECK(sampled == 12);
    }
  }
}

TEST_CASE("planner/contract: a strategy has what its sharding says, and refuses the rest") {
  for (const Strategy& strategy : planner::strategies()) {
    for (const Wish& wish : wishes()) {
      CAPTURE(strategy.name);
      CAPTURE(wish.name);
      Request request = request_of(strategy);
      const Plan plain = planned(request);
      wish.ask(request);
      if (wish.granted(strategy.sharding)) {
        const Plan plan = planned(request);
        CHECK(plan != plain);
        check_plan(plan);
        continue;
      }
      bool refused = false;
      try {
        refused = std::holds_alternative<planner::Infeasible>(planner::make_plan(request));
      } catch (const Error&) {
        refused = true;
      }
      CHECK(refused);
    }
  }
}

// Plan files may say anything.
TEST_CASE("planner/contract: a plan with fields of another strategy is refused") {
  for (const Strategy& strategy : planner::strategies()) {
    const Sharding& sharding = strategy.sharding;
    const auto check_refused = [&](const std::string& name, auto change) {
      CAPTURE(strategy.name);
      CAPTURE(name);
      Plan plan = planned(request_of(strategy));
      change(plan);
      CHECK_THROWS_AS(plan.validate(), Error);
    };
    check_refused("partition",
                  [](Plan& plan) { plan.partition = plan.partition.empty() ? "equal" : ""; });
    check_refused("all-reduce", [](Plan& plan) {
      plan.allreduce.prompt = plan.allreduce.prompt.empty() ? "star" : "";
    });
    check_refused("layout", [](Plan& plan) {
      plan.layout.order =
          plan.layout.order.empty() ? std::vector<DeviceIndex>{0, 1} : std::vector<DeviceIndex>{};
    });
    check_refused("shares", [](Plan& plan) { plan.devices[0].share.heads.end -= 1; });
    check_refused("groups", [](Plan& plan) { plan.group_strategy = "galaxy"; });
    if (!sharding.exchanges_rows()) check_refused("tiles", [](Plan& plan) { plan.tiles = 2; });
    if (!sharding.gather_weights)
      check_refused("gathered weights", [](Plan& plan) { plan.gather_weights = true; });
    if (!sharding.splits_layers())
      check_refused("steps in flight", [](Plan& plan) { plan.capacity = {8, 64, 2, 2}; });
    if (!sharding.splits_positions()) {
      check_refused("positions", [](Plan& plan) { plan.devices[1].share.part.positions = {0, 2}; });
      check_refused("moves",
                    [](Plan& plan) { plan.decode_moves = planner::DecodeMoves::keys_each_step; });
    }
    if (!sharding.may_split_head()) {
      check_refused("a split head", [](Plan& plan) {
        plan.devices[1].share.head = true;
        plan.devices[1].share.vocabulary = {0, 4};
      });
    }
    if (!sharding.may_stream())
      check_refused("a window", [](Plan& plan) { plan.devices[0].window.blocks = 2; });
  }
}

// By row of the batch, the devices with a task of `kind` in `layer`.
std::map<int, std::set<DeviceIndex>> devices_by_row(const TaskGraph& graph, TaskKind kind,
                                                    std::int32_t layer) {
  std::map<int, std::set<DeviceIndex>> devices;
  for (const Task& task : graph.tasks()) {
    if (task.kind != kind || task.layer != layer || task.block == model::WeightBlock::attention)
      continue;
    for (int row = task.rows.begin; row < task.rows.end; ++row) devices[row].insert(task.device);
  }
  return devices;
}

// The largest number of devices of a row.
std::size_t most(const std::map<int, std::set<DeviceIndex>>& by_row) {
  std::size_t count = 0;
  for (const auto& [row, devices] : by_row) count = std::max(count, devices.size());
  return count;
}

std::set<DeviceIndex> all_of(const std::map<int, std::set<DeviceIndex>>& by_row) {
  std::set<DeviceIndex> all;
  for (const auto& [row, devices] : by_row) all.insert(devices.begin(), devices.end());
  return all;
}

TEST_CASE("planner/contract: shares are those that the sharding names") {
  for (const Strategy& strategy : planner::strategies()) {
    CAPTURE(strategy.name);
    const Plan plan = planned(request_of(strategy));
    std::int64_t heads = 0;
    std::int64_t columns = 0;
    std::int64_t layers = 0;
    for (const planner::DevicePlan& device : plan.devices) {
      heads += device.share.heads.size();
      columns += device.share.columns.size();
      layers += device.share.layers.size();
    }
    const model::Transformer& t = plan.model;
    switch (strategy.sharding.weights) {
      case planner::Weights::at_master:
        CHECK(plan.devices[0].share.layers.size() == t.layers);
        CHECK(layers == t.layers);
        break;
      case planner::Weights::heads_and_columns:
        CHECK(heads == t.heads);
        CHECK(columns == t.intermediate);
        CHECK(layers == kDevices * t.layers);
        break;
      case planner::Weights::layers:
        CHECK(layers == t.layers);
        CHECK(heads == kDevices * t.heads);
        break;
      case planner::Weights::replicated:
        CHECK(layers == kDevices * t.layers);
        CHECK(heads == kDevices * t.heads);
        CHECK(columns == kDevices * t.intermediate);
        break;
    }
  }
}

TEST_CASE("planner/contract: prompts and new tokens are computed where the sharding says") {
  constexpr std::int32_t kLayer = 1;  // neither the first nor the last
  for (const Strategy& strategy : planner::strategies()) {
    CAPTURE(strategy.name);
    const Plan plan = planned(request_of(strategy));
    const TaskGraph prompt = strategy.lower(plan, planner::prompt_batch(plan.workload));
    const auto norms = devices_by_row(prompt, TaskKind::norm, kLayer);
    const auto products = devices_by_row(prompt, TaskKind::ffn_up, kLayer);
    REQUIRE(norms.size() == 5);
    REQUIRE(products.size() == 5);
    const std::size_t sharers = strategy.sharding.splits_heads() ? kDevices : 1;
    switch (strategy.sharding.prefill) {
      case planner::PrefillRows::whole:
        CHECK(most(norms) == sharers);
        CHECK(most(products) == sharers);
        CHECK(all_of(products).size() == sharers);
        break;
      case planner::PrefillRows::split_between_halves:
        CHECK(most(norms) == 1);
        CHECK(most(products) == kDevices);
        break;
      case planner::PrefillRows::split:
      case planner::PrefillRows::with_cache:
        CHECK(most(norms) == 1);
        CHECK(most(products) == 1);
        CHECK(all_of(products).size() == kDevices);
        break;
    }
    const TaskGraph token = strategy.lower(plan, planner::decode_batch(5));
    std::set<DeviceIndex> computing;
    std::set<DeviceIndex> layers_of;  // devices of one layer's products
    for (const Task& task : token.tasks()) {
      if (task.kind != TaskKind::ffn_up) continue;
      computing.insert(task.device);
      if (task.layer == kLayer) layers_of.insert(task.device);
    }
    std::set<DeviceIndex> attending;
    std::int32_t attended = 0;  // heads of one layer, by all devices
    for (const Task& task : token.tasks()) {
      if (task.kind != TaskKind::attend) continue;
      attending.insert(task.device);
      if (task.layer == kLayer) attended += task.columns.size();
    }
    switch (strategy.sharding.decode) {
      case planner::Decode::master:
        CHECK(computing == std::set<DeviceIndex>{plan.master});
        break;
      case planner::Decode::tensor:
        CHECK(layers_of.size() == kDevices);
        break;
      case planner::Decode::pipeline:
        CHECK(layers_of.size() == 1);
        CHECK(computing.size() == kDevices);
        break;
      case planner::Decode::owner:
        CHECK(computing.size() == 1);
        break;
    }
    switch (strategy.sharding.cache) {
      case planner::KvCache::at_master:
        CHECK(attending == std::set<DeviceIndex>{plan.master});
        break;
      case planner::KvCache::by_heads:
        CHECK(attending.size() == kDevices);
        CHECK(attended == plan.model.heads);
        break;
      case planner::KvCache::by_layers:
        CHECK(attending.size() == kDevices);
        CHECK(attended == plan.model.heads);
        break;
      case planner::KvCache::by_position:
        CHECK(attending.size() == kDevices);
        CHECK(attended == kDevices * plan.model.heads);
        break;
    }
  }
}

// The cells of a strategy's row in docs/explanation/strategies.md.
std::string documented(const Sharding& sharding) {
  const std::map<planner::Weights, std::string> weights{
      {planner::Weights::at_master, "at the master"},
      {planner::Weights::heads_and_columns, "heads and columns"},
      {planner::Weights::layers, "layers"},
      {planner::Weights::replicated, "replicated"}};
  const std::map<planner::PrefillRows, std::string> prefill{
      {planner::PrefillRows::whole, "whole"},
      {planner::PrefillRows::split, "split"},
      {planner::PrefillRows::split_between_halves, "split between halves"},
      {planner::PrefillRows::with_cache, "with the cache"}};
  const std::map<planner::KvCache, std::string> cache{
      {planner::KvCache::at_master, "at the master"},
      {planner::KvCache::by_heads, "by heads"},
      {planner::KvCache::by_layers, "by layers"},
      {planner::KvCache::by_position, "by position"}};
  const std::map<planner::Decode, std::string> decode{{planner::Decode::master, "master"},
                                                      {planner::Decode::tensor, "tensor"},
                                                      {planner::Decode::pipeline, "pipeline"},
                                                      {planner::Decode::owner, "owner"}};
  return weights.at(sharding.weights) + (sharding.gather_weights ? ", or gathered" : "") + " | " +
         prefill.at(sharding.prefill) + " | " + cache.at(sharding.cache) + " | " +
         decode.at(sharding.decode) + " | ";
}

TEST_CASE("planner/contract: the page of strategies says what the table does") {
  std::ifstream page(testing::in_sources("docs/explanation/strategies.md"));
  std::string line;
  int rows = 0;
  while (std::getline(page, line)) {
    if (!line.starts_with("| `") || line.starts_with("| `--")) continue;
    const std::string name = line.substr(3, line.find('`', 3) - 3);
    CAPTURE(line);
    CHECK(line.starts_with("| `" + name + "` | " +
                           documented(planner::find_strategy(name).sharding)));
    ++rows;
  }
  CHECK(rows >= 7);
}

}  // namespace
}  // namespace tandem::test::strategy_contract_test
