// Compositions on links that are shared: their closed forms, and their bytes in between.

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "planner/search/search.hpp"
#include "sim/replay/replay.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/sim/sim_fixture.hpp"
#include "tests/support/collective_fixture.hpp"

namespace tandem::sim::testing::composed_replay_test {
namespace {

using planner::Allreduce;

constexpr std::int32_t kColumns = 2520;
constexpr double kBytes = 4.0 * test::kSumRows * kColumns;
constexpr planner::Uniform kNet{model::Seconds{2e-3}, model::BytesPerSecond{1e6}};
const std::vector<std::vector<int>> kGroups{{2, 2}, {3, 3}, {4, 4}, {1, 4, 2}, {2, 2, 2, 2}};

Spans fairly(const model::Cluster& cluster, TaskGraph graph) {
  GraphSteps steps({std::move(graph)});
  model::RunRecorder recorder(cluster, 0, true);
  evaluate_fair(cluster, free_costs(cluster), steps, recorder);
  return spans_of(recorder);
}

bool alike(const std::vector<int>& groups) {
  return std::ranges::count(groups, groups.front()) == std::ssize(groups);
}

TEST_CASE("sim/collective: compositions take their closed forms to 1e-9, equal groups") {
  for (const std::string& name : test::kCompositions) {
    for (const std::vector<int>& groups : kGroups) {
      CAPTURE(name);
      CAPTURE(groups.size());
      CAPTURE(groups.front());
      const int devices = std::accumulate(groups.begin(), groups.end(), 0);
      const Allreduce chosen = planner::parse_allreduce(name);
      const double expected =
          chosen.collective->time(test::topology_of(chosen, groups), model::Bytes{kBytes}, kNet)
              .value();
      std::vector<planner::Participant> participants = test::everyone(devices);
      const double time = makespan(fairly(
          test::mesh_of(devices, 2e-3, 1e6),
          test::sum_graph_of(test::grouped(groups, false), 0, name, kColumns, participants)));
      if (alike(groups)) {
        CHECK(time == doctest::Approx(expected).epsilon(1e-9));
      } else {
        CHECK(time <= expected * (1.0 + 1e-9));
      }
    }
  }
}

TEST_CASE("sim/collective: halves of compositions take their closed forms at most") {
  for (const std::string& name : test::kCompositions) {
    for (const std::vector<int>& groups : kGroups) {
      for (const bool gathers : {true, false}) {
        if (!alike(groups)) continue;
        CAPTURE(name);
        CAPTURE(groups.size());
        CAPTURE(groups.front());
        CAPTURE(gathers);
        const int devices = std::accumulate(groups.begin(), groups.end(), 0);
        const Allreduce chosen = planner::parse_allreduce(name);
        const double expected =
            chosen.collective
                ->half_time(test::topology_of(chosen, groups), model::Bytes{kBytes}, kNet)
                .value();
        const std::vector<std::int32_t> parts(static_cast<std::size_t>(devices),
                                              kColumns / devices);
        const double time = makespan(fairly(
            test::mesh_of(devices, 2e-3, 1e6),
            test::half_graph_of(test::grouped(groups, false), name, gathers, kColumns,
                                test::kSumRows, test::cut_of(planner::Cut::Axis::rows, parts))
                .graph));
        CHECK(time <= expected * (1.0 + 1e-9));
        CHECK(time >= 0.3 * expected);
      }
    }
  }
}

TEST_CASE("sim/collective: all-to-alls take their closed forms at most") {
  for (const std::string& name : test::with_compositions(test::kAllreduces)) {
    for (const std::vector<int>& groups : kGroups) {
      CAPTURE(name);
      CAPTURE(groups.size());
      CAPTURE(groups.front());
      const auto devices = std::accumulate(groups.begin(), groups.end(), 0);
      const Allreduce chosen = planner::parse_allreduce(name);
      const double expected =
          planner::all_to_all_time(*chosen.collective, test::topology_of(chosen, groups),
                                   model::Bytes{kBytes}, kNet)
              .value();
      const std::vector<std::int32_t> parts(static_cast<std::size_t>(devices), kColumns / devices);
      const double time =
          makespan(fairly(test::mesh_of(devices, 2e-3, 1e6),
                          test::dealt(test::grouped(groups, false), name, kColumns, test::kSumRows,
                                      test::cut_of(planner::Cut::Axis::rows, parts))
                              .graph));
      CHECK(time <= expected * (1.0 + 1e-9));
      CHECK(time >= 0.3 * expected);
    }
  }
}

TEST_CASE("sim/collective: broadcasts take their closed forms to 1e-9") {
  for (const std::string& name : test::with_compositions(test::kAllreduces)) {
    for (const std::vector<int>& groups : kGroups) {
      CAPTURE(name);
      CAPTURE(groups.size());
      CAPTURE(groups.front());
      const auto devices = std::accumulate(groups.begin(), groups.end(), 0);
      const Allreduce chosen = planner::parse_allreduce(name);
      const double expected =
          chosen.collective
              ->broadcast_time(test::topology_of(chosen, groups), model::Bytes{kBytes}, kNet)
              .value();
      const double time = makespan(fairly(
          test::mesh_of(devices, 2e-3, 1e6),
          test::broadcast_graph(test::grouped(groups, false), name, kColumns,
                                std::vector<bool>(static_cast<std::size_t>(devices), true))));
      if (alike(groups) || chosen.inside.collective == nullptr) {
        CHECK(time == doctest::Approx(expected).epsilon(1e-9));
      } else {
        CHECK(time <= expected * (1.0 + 1e-9));
      }
    }
  }
}

TEST_CASE("sim/collective: auto takes a composition where that is fastest" *
          doctest::test_suite("long")) {
  planner::Request request{
      .model = test::small_model({.layers = 2, .heads = 16, .kv_heads = 16, .head_dim = 8}),
      .cluster = test::homes_of(3, 3, 1e-4, 2e-2, 1e6),
      .partition = "equal",
      .allreduce = "auto,star",
      .evaluate = evaluate_fair,
      .workload = {.prompt_tokens = 20, .new_tokens = 1}};
  const auto planned = [&] { return std::get<planner::Plan>(planner::make_plan(request)); };
  const planner::Plan chosen = planned();
  CHECK(planner::parse_allreduce(chosen.allreduce.prompt).inside.collective != nullptr);
  const double least = planner::trial_request_time(chosen, evaluate_fair);
  for (const std::string& name : test::with_compositions(test::kAllreduces)) {
    if (name == chosen.allreduce.prompt) continue;
    CAPTURE(name);
    request.allreduce = name + ",star";
    CHECK(least < planner::trial_request_time(planned(), evaluate_fair));
  }
}

}  // namespace
}  // namespace tandem::sim::testing::composed_replay_test
