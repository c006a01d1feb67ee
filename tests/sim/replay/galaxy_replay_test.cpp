// Strategies that part rows, on SimGrid.

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/report/communication.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/sim/sim_fixture.hpp"
#include "tests/support/collective_fixture.hpp"

namespace tandem::sim::testing::galaxy_replay_test {
namespace {

struct Times {
  double ttft_s;
  double last_token_s;
};

Times times_of(const planner::Plan& plan, const planner::Evaluator& evaluate) {
  planner::GenerationSteps steps(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  evaluate(plan.cluster, plan.cost_model(), steps, recorder);
  const model::Metrics metrics = recorder.metrics();
  return {metrics.ttft_s, metrics.token_times_s.back()};
}

// Devices that compute a layer in about the time of its messages, a link between every two.
model::Cluster balanced(int count) {
  const model::Cluster mesh = test::mesh_of(count, 1e-5, 2e7);
  std::vector<model::Device> devices = mesh.devices();
  for (std::size_t d = 0; d < devices.size(); ++d) {
    devices[d].flop_rate = model::FlopsPerSecond{5e8 * static_cast<double>(1 + d % 2)};
    devices[d].memory_bandwidth = model::BytesPerSecond{1e10};
  }
  return {mesh.name(), devices, mesh.routers(), mesh.links(), mesh.edges()};
}

planner::Plan planned(const model::Cluster& cluster, const std::string& strategy,
                      const std::string& partition, std::optional<std::int32_t> tiles,
                      std::int64_t prompt, bool gather_weights = false) {
  planner::Request request{.model = small_llama(),
                           .cluster = cluster,
                           .strategy = strategy,
                           .partition = partition,
                           .tiles = tiles,
                           .gather_weights = gather_weights,
                           .evaluate = replay,
                           .workload = {prompt, 3}};
  return std::get<planner::Plan>(make_plan(request));
}

TEST_CASE("sim/galaxy: where nothing contends both evaluators agree to 1e-9, tile by tile") {
  for (const int devices : {1, 2, 3, 5}) {
    for (const std::int64_t prompt : {2, 40}) {
      for (const auto& [strategy, tiles] :
           std::vector<std::pair<const char*, std::optional<std::int32_t>>>{{"sp", std::nullopt},
                                                                            {"galaxy", 0},
                                                                            {"galaxy", 1},
                                                                            {"galaxy", 3},
                                                                            {"csps", 0},
                                                                            {"csps", 1},
                                                                            {"csps", 3}}) {
        CAPTURE(devices);
        CAPTURE(prompt);
        CAPTURE(strategy);
        CAPTURE(tiles.value_or(-1));
        const planner::Plan plan = planned(balanced(devices), strategy, "auto", tiles, prompt);
        const Times analytic = times_of(plan, model::evaluate_analytic);
        const Times simulated = times_of(plan, replay);
        CHECK(simulated.ttft_s == doctest::Approx(analytic.ttft_s).epsilon(1e-9));
        CHECK(simulated.last_token_s == doctest::Approx(analytic.last_token_s).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("sim/gathered weights: where nothing contends both evaluators agree to 1e-9") {
  for (const int devices : {2, 3, 5}) {
    for (const std::int32_t tiles : {0, 1, 3}) {
      CAPTURE(devices);
      CAPTURE(tiles);
      const planner::Plan plan = planned(balanced(devices), "csps", "auto", tiles, 40, true);
      const Times analytic = times_of(plan, model::evaluate_analytic);
      const Times simulated = times_of(plan, replay);
      CHECK(simulated.ttft_s == doctest::Approx(analytic.ttft_s).epsilon(1e-9));
      CHECK(simulated.last_token_s == doctest::Approx(analytic.last_token_s).epsilon(1e-9));
    }
  }
}

TEST_CASE("sim/communication: where nothing contends both evaluators hide the same, by phase") {
  for (const char* const strategy : {"galaxy", "csps", "sp", "tensor"}) {
    for (const std::int32_t tiles : {0, 2}) {
      CAPTURE(std::string(strategy));
      CAPTURE(tiles);
      const bool tiled = planner::find_strategy(strategy).sharding.exchanges_rows();
      if (tiles > 0 && !tiled) continue;
      const planner::Plan plan =
          planned(balanced(3), strategy, "equal", tiled ? std::optional(tiles) : std::nullopt, 40);
      std::vector<model::Communication>
          told;  // prompt and new tokens, of one evaluator after another
      for (const planner::Evaluator& evaluate :
           {planner::Evaluator(model::evaluate_analytic), planner::Evaluator(replay)}) {
        planner::GenerationSteps steps(plan);
        model::RunRecorder recorder(plan.cluster, plan.master, true);
        evaluate(plan.cluster, plan.cost_model(), steps, recorder);
        for (const model::Range phase : {model::Range{0, 1}, model::Range{1, 3}}) {
          const auto one = model::communication_of(recorder.trace(), phase);
          // Of `sp` new tokens send nothing.
          told.push_back(one.value_or(model::Communication{}));
          CHECK(0.0 <= told.back().hidden_s);
          CHECK(told.back().hidden_s <= told.back().total_s);
        }
      }
      CHECK(told[0].total_s > 0.0);
      for (const std::size_t phase : {0U, 1U}) {
        CHECK(told[phase].total_s == doctest::Approx(told[2 + phase].total_s).epsilon(1e-9));
        CHECK(told[phase].hidden_s == doctest::Approx(told[2 + phase].hidden_s).epsilon(1e-9));
      }
    }
  }
}

// What is left of a prompt's time where links are infinitely fast is computing; of the rest tiles
// hide a part.
TEST_CASE("sim/galaxy: tiles hide a part of the messages' time") {
  const model::Cluster cluster = balanced(4);
  model::Cluster fast = test::mesh_of(4, 0.0, 1e18);
  fast = {fast.name(), cluster.devices(), fast.routers(), fast.links(), fast.edges()};
  const double computing = times_of(planned(fast, "galaxy", "equal", 0, 64), replay).ttft_s;
  const double none = times_of(planned(cluster, "galaxy", "equal", 0, 64), replay).ttft_s;
  const double tiled = times_of(planned(cluster, "galaxy", "equal", 1, 64), replay).ttft_s;
  CAPTURE(computing);
  CAPTURE(none);
  CAPTURE(tiled);
  const double hidden = (none - tiled) / (none - computing);
  MESSAGE("hidden: " << hidden);
  CHECK(none > 1.2 * computing);
  CHECK(hidden > 0.1);
  CHECK(hidden < 1.0);
}

}  // namespace
}  // namespace tandem::sim::testing::galaxy_replay_test
