#include "planner/strategy/pipeline.hpp"

#include <doctest/doctest.h>

#include <array>
#include <numeric>
#include <random>

#include "model/base/error.hpp"
#include "model/graph/work.hpp"
#include "planner/partition/layer_partition.hpp"
#include "planner/search/search.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/planner/planner_interpreter.hpp"

namespace tandem::test::pipeline_test {
namespace {

using planner::Plan;
using planner::Request;

Request request_for(const std::vector<DeviceSpec>& devices, std::int64_t layers,
                    const std::string& partition, const std::string& master = "") {
  return {.model = small_model({.layers = layers, .heads = 6, .kv_heads = 3, .intermediate = 7}),
          .cluster = star_cluster(devices),
          .strategy = "pipeline",
          .partition = partition,
          .master = master,
          .workload = {.prompt_tokens = 5, .new_tokens = 3}};
}

Plan pipeline_plan(const Request& request) {
  const auto answer = planner::make_plan(request);
  REQUIRE(std::holds_alternative<Plan>(answer));
  return std::get<Plan>(answer);
}

std::vector<std::int32_t> layer_counts(const Plan& plan) {
  std::vector<std::int32_t> counts;
  for (const planner::DevicePlan& device : plan.devices)
    counts.push_back(device.share.layers.size());
  return counts;
}

std::string reason(const Request& request) {
  const auto answer = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Infeasible>(answer));
  return std::get<planner::Infeasible>(answer).reason;
}

}  // namespace

TEST_CASE("planner/pipeline: any number of stages gives the unsharded model's logits") {
  for (std::size_t devices = 1; devices <= 7; ++devices) {
    for (const std::int64_t layers : {7, 11}) {
      for (const std::string master : {"d0", devices > 2 ? "d2" : "d0"}) {
        CAPTURE(devices);
        CAPTURE(layers);
        CAPTURE(master);
        const std::vector<DeviceSpec> specs(devices);
        check_generation(pipeline_plan(request_for(specs, layers, "equal", master)));
      }
    }
  }
  check_generation(pipeline_plan(request_for({{}, {}, {}}, 5, "1:3:1", "d1")));
}

TEST_CASE("planner/pipeline: windows, retention and release give the unsharded model's logits") {
  for (const std::int32_t window : {1, 2, 3}) {
    for (const std::int32_t retain : {0, 2}) {
      for (const auto release : {model::ReleaseRule::early, model::ReleaseRule::late}) {
        CAPTURE(window);
        CAPTURE(retain);
        Request request = request_for({{}, {}, {}}, 8, "4:3:1");
        request.window = {.blocks = window, .retain = retain};
        request.release = release;
        const Plan plan = pipeline_plan(request);
        CHECK(plan.devices[0].window.blocks == window);
        check_generation(plan);
      }
    }
  }
}

TEST_CASE("planner/pipeline: N stages send N messages of rows * hidden * 4 bytes, one sends none") {
  const planner::Strategy& strategy = planner::find_strategy("pipeline");
  for (std::size_t devices = 1; devices <= 7; ++devices) {
    for (const std::int32_t rows : {1, 3}) {
      CAPTURE(devices);
      CAPTURE(rows);
      const Plan plan =
          pipeline_plan(request_for(std::vector<DeviceSpec>(devices), 7, "equal", "d0"));
      const model::TaskGraph graph = strategy.lower(plan, planner::prompt_batch({rows, 1}));
      double bytes = 0.0;
      for (const model::Task& task : graph.tasks())
        bytes += model::work_of(plan.model, graph.batch(), task).bytes_wire;
      const double payload = 4.0 * rows * static_cast<double>(plan.model.hidden);
      CHECK(bytes == (devices == 1 ? 0.0 : static_cast<double>(devices)) * payload);
    }
  }
}

TEST_CASE("planner/pipeline: a token takes all layers' time and N (2 l + S / B + 4 S / M)") {
  // Access links of l = 1 ms and B = 1 MB/s each, two a route; S = 12 columns of 4 bytes = 48
  // bytes, each read and written at both ends at M.
  const Request alone = request_for({{}}, 7, "equal");
  for (std::size_t devices = 2; devices <= 7; ++devices) {
    CAPTURE(devices);
    const auto token_time = [](const Plan& plan) {
      planner::GenerationSteps steps(plan);
      model::RunRecorder recorder(plan.cluster, plan.master, false);
      evaluate_analytic(plan.cluster, plan.cost_model(), steps, recorder);
      return recorder.metrics().token_latencies_s().front();
    };
    const double computing = token_time(pipeline_plan(alone));
    const Plan plan = pipeline_plan(request_for(std::vector<DeviceSpec>(devices), 7, "equal"));
    const double memory = plan.cluster.devices().front().memory_bandwidth.value();
    const double messages =
        static_cast<double>(devices) * (2e-3 + 48.0 / 1e6 + 4.0 * 48.0 / memory);
    CHECK(token_time(plan) == doctest::Approx(computing + messages).epsilon(1e-9));
  }
}

TEST_CASE("planner/pipeline: layers go by speed, 10 over 1:2:2 are 2, 4, 4") {
  CHECK(layer_counts(pipeline_plan(request_for({{1e9}, {2e9}, {2e9}}, 10, "1:2:2"))) ==
        std::vector<std::int32_t>{2, 4, 4});
  CHECK(layer_counts(pipeline_plan(request_for({{1e9}, {2e9}, {2e9}}, 10, "equal"))) ==
        std::vector<std::int32_t>{4, 3, 3});
  // The master's layers come first, wherever it stands.
  const Plan plan = pipeline_plan(request_for({{}, {}, {}}, 9, "equal", "d1"));
  CHECK(plan.devices[1].share.layers == model::Range{0, 3});
  CHECK(plan.devices[0].share.layers == model::Range{3, 6});
  CHECK(plan.devices[2].share.layers == model::Range{6, 9});
}

TEST_CASE("planner/pipeline: what one device cannot hold goes to the others") {
  const Plan ample = pipeline_plan(request_for({{}, {}, {}}, 12, "galaxy"));
  CHECK(layer_counts(ample) == std::vector<std::int32_t>{4, 4, 4});
  // Room for two layers of the second, not for three.
  const double layer = (ample.devices[1].memory.weights + ample.devices[1].memory.kv_cache) / 4;
  Request tight = request_for({{}, {}, {}}, 12, "galaxy");
  const double limit = ample.devices[1].memory.total() - 1.5 * layer;
  tight.cluster = star_cluster({{}, {.memory_bytes = limit}, {}});
  tight.window = {.blocks = 0, .retain = 0};
  CHECK(layer_counts(pipeline_plan(tight)) == std::vector<std::int32_t>{5, 2, 5});
}

TEST_CASE("planner/pipeline: random budgets are respected, or told to lack") {
  std::mt19937 random(11);
  int feasible = 0;
  for (int trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    const auto draw = [&](double from, double to) {
      return std::uniform_real_distribution<double>(from, to)(random);
    };
    std::vector<DeviceSpec> devices(static_cast<std::size_t>(draw(1.0, 5.99)));
    for (DeviceSpec& device : devices)
      device = {.flops_per_s = draw(1e8, 1e9), .memory_bytes = draw(4e3, 4e4)};
    Request request = request_for(devices, 9, "galaxy");
    request.window = {.blocks = 0, .retain = 0};
    const auto answer = planner::make_plan(request);
    const Plan* plan = std::get_if<Plan>(&answer);
    if (plan == nullptr) {
      CHECK(!std::get<planner::Infeasible>(answer).reason.empty());
      continue;
    }
    ++feasible;
    const std::vector<std::int32_t> counts = layer_counts(*plan);
    CHECK(std::accumulate(counts.begin(), counts.end(), 0) == 9);
    for (std::size_t d = 0; d < devices.size(); ++d)
      CHECK(plan->devices[d].memory.total() <= devices[d].memory_bytes);
  }
  CHECK(feasible > 20);
}

TEST_CASE("planner/pipeline: what cannot be is refused with the reason") {
  CHECK(reason(request_for({{}, {}, {}}, 2, "equal")).find("only 2 layers") != std::string::npos);
  CHECK(reason(request_for({{}, {}}, 2, "1000:1")).find("less than one layer") !=
        std::string::npos);
  Request poor = request_for({{.memory_bytes = 5e3}, {.memory_bytes = 5e3}}, 9, "galaxy");
  poor.window = {.blocks = 0, .retain = 0};
  CHECK(reason(poor).find("the whole cluster lacks") != std::string::npos);

  Plan plan = pipeline_plan(request_for({{}, {}}, 4, "equal"));
  plan.devices[1].share.layers = {1, 4};
  CHECK_THROWS_WITH_AS(plan.validate(), doctest::Contains("expected them to begin at 2"), Error);
  plan = pipeline_plan(request_for({{}, {}}, 4, "equal"));
  plan.devices[1].share.layers = {2, 3};
  CHECK_THROWS_WITH_AS(plan.validate(), doctest::Contains("end at 3"), Error);
  plan = pipeline_plan(request_for({{}, {}}, 4, "equal"));
  plan.devices[1].share.heads = {0, 5};
  CHECK_THROWS_WITH_AS(plan.validate(), doctest::Contains("expected all of its layers"), Error);
  plan = pipeline_plan(request_for({{}, {}}, 4, "equal"));
  plan.allreduce = {"star", "star"};
  CHECK_THROWS_AS(plan.validate(), Error);
}

}  // namespace tandem::test::pipeline_test
