#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/graph/work.hpp"
#include "planner/collective/all_to_all.hpp"
#include "planner/collective/halving.hpp"
#include "planner/collective/star.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/sim/sim_fixture.hpp"
#include "tests/support/collective_fixture.hpp"

namespace tandem::sim::testing::collective_replay_test {
namespace {

using planner::Participant;

constexpr std::int32_t kColumns = 2520;  // that 1 to 9 divide
constexpr double kBytes = 4.0 * test::kSumRows * kColumns;
constexpr planner::Uniform kNet{model::Seconds{2e-3}, model::BytesPerSecond{1e6}};

Spans fairly(const model::Cluster& cluster, TaskGraph graph) {
  GraphSteps steps({std::move(graph)});
  model::RunRecorder recorder(cluster, 0, true);
  evaluate_fair(cluster, free_costs(cluster), steps, recorder);
  return spans_of(recorder);
}

double sum_time(const model::Cluster& cluster, const std::string& allreduce) {
  std::vector<Participant> participants = test::everyone(cluster.size());
  return makespan(fairly(cluster, test::sum_graph(cluster, 0, allreduce, kColumns, participants)));
}

double closed_form(const model::Cluster& cluster, const std::string& allreduce) {
  const planner::Allreduce chosen = planner::parse_allreduce(allreduce);
  return chosen.collective
      ->time({chosen.depth, test::groups_by_rank(cluster, 0)}, model::Bytes{kBytes}, kNet)
      .value();
}

TEST_CASE("sim/collective: each takes its closed form to 1e-9 where nothing contends") {
  for (const std::string& allreduce : test::kAllreduces) {
    for (int devices = 1; devices <= 9; ++devices) {
      CAPTURE(allreduce);
      CAPTURE(devices);
      const model::Cluster cluster = test::mesh_of(devices, 2e-3, 1e6);
      const auto expected = doctest::Approx(closed_form(cluster, allreduce)).epsilon(1e-9);
      CHECK(sum_time(cluster, allreduce) == expected);
      if (devices != 5) continue;
      std::vector<Participant> participants = test::everyone(devices);
      CHECK(makespan(simulated(cluster, test::sum_graph(cluster, 0, allreduce, kColumns,
                                                        participants))) == expected);
    }
  }
}

TEST_CASE("sim/collective: halves take their closed forms to 1e-9 where nothing contends") {
  for (const std::string& allreduce : test::kAllreduces) {
    for (int devices = 1; devices <= 9; ++devices) {
      for (const bool gathers : {true, false}) {
        CAPTURE(allreduce);
        CAPTURE(devices);
        CAPTURE(gathers);
        const planner::Allreduce chosen = planner::parse_allreduce(allreduce);
        const std::vector<std::int32_t> equal(static_cast<std::size_t>(devices),
                                              kColumns / devices);
        const auto cut = test::cut_of(planner::Cut::Axis::rows, equal);
        const auto time = [&](const model::Cluster& cluster) {
          return makespan(fairly(
              cluster,
              test::half_graph(cluster, allreduce, gathers, kColumns, test::kSumRows, cut).graph));
        };
        const model::Cluster mesh = test::mesh_of(devices, 2e-3, 1e6);
        const planner::Topology topology{chosen.depth, test::groups_by_rank(mesh, 0)};
        const double expected =
            chosen.collective->half_time(topology, model::Bytes{kBytes}, kNet).value();
        const double on_mesh = time(mesh);
        CHECK(on_mesh <= expected * (1.0 + 1e-9));
        if (chosen.collective->half_time_is_exact(topology))
          CHECK(on_mesh >= expected * (1.0 - 1e-9));
        // No two messages of a ring share a device's full-duplex link.
        if (allreduce == "ring")
          CHECK(time(test::access_of(devices, 2e-3, 1e6)) ==
                doctest::Approx(expected).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE(
    "sim/collective: on access links ring and halving as before, the star 2 l + 2 (N - 1) S / B") {
  for (int devices = 2; devices <= 9; ++devices) {
    CAPTURE(devices);
    const model::Cluster cluster = test::access_of(devices, 2e-3, 1e6);
    const auto is = [](double seconds) { return doctest::Approx(seconds).epsilon(1e-9); };
    CHECK(sum_time(cluster, "star") ==
          is(planner::star_time_shared(devices, model::Bytes{kBytes}, kNet).value()));
    CHECK(sum_time(cluster, "ring") == is(closed_form(cluster, "ring")));
    // Extra ranks fold later than the others begin, whose messages then share links with theirs.
    const double halving = closed_form(cluster, "halving");
    if (devices == planner::power_of_two(devices)) {
      CHECK(sum_time(cluster, "halving") == is(halving));
    } else {
      CHECK(sum_time(cluster, "halving") >= halving * (1.0 - 1e-9));
    }
    // A tree's parents wait for their children's messages.
    CHECK(sum_time(cluster, "tree") >= closed_form(cluster, "tree") * (1.0 - 1e-9));
  }
}

TEST_CASE("sim/collective: homes of 4, hierarchical: 2 l_in + 2 l_out + (9 + 2 (G - 1)) S/B") {
  for (const int homes : {2, 3, 5}) {
    CAPTURE(homes);
    const model::Cluster cluster = test::homes_of(homes, 4, 1e-3, 10e-3, 1e6);
    const double transfer = kBytes / 1e6;
    const double expected = 2.0 * (2e-3 + 22e-3) + (9 + 2 * (homes - 1)) * transfer;
    CHECK(sum_time(cluster, "hierarchical") == doctest::Approx(expected).epsilon(1e-9));
    CHECK(sum_time(cluster, "hierarchical") < sum_time(cluster, "star"));
  }
}

TEST_CASE("sim/collective: an all-to-all on access links takes l + (N - 1) S / (N B)") {
  for (int devices = 2; devices <= 9; ++devices) {
    CAPTURE(devices);
    TaskGraph graph(model::Batch{{{.rows = test::kSumRows}}});
    planner::Exchange exchange(graph,
                               {.master = 0, .rows = {0, test::kSumRows}, .columns = {0, kColumns}},
                               test::everyone(devices), devices);
    static_cast<void>(planner::all_to_all(exchange));
    CHECK(makespan(fairly(test::access_of(devices, 2e-3, 1e6), std::move(graph))) ==
          doctest::Approx(2e-3 + kBytes * (devices - 1) / devices / 1e6).epsilon(1e-9));
  }
}

// Time of the whole generation where links are shared.
double generation_time(const planner::Plan& plan) {
  planner::GenerationSteps steps(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  extend_fair(plan.cluster, plan.cost_model(), steps, recorder);
  return recorder.metrics().token_times_s.back();
}

TEST_CASE("sim/collective: auto is within 1% of the best fixed choice where links are shared" *
          doctest::test_suite("long")) {
  model::Transformer transformer = small_llama();
  transformer.heads = 12;
  transformer.kv_heads = 12;
  transformer.hidden = 192;
  struct Network {
    const char* name;
    model::Cluster cluster;
  };
  std::vector<Network> networks;
  for (const double latency : {1e-5, 1e-3, 2e-2}) {
    for (const double bandwidth : {1e6, 4e7, 1e9}) {
      networks.push_back({"access", test::access_of(5, latency, bandwidth)});
      networks.push_back({"homes", test::homes_of(2, 3, latency, 8 * latency, bandwidth)});
    }
  }
  networks.push_back({"mesh", test::mesh_of(4, 1e-3, 1e6)});
  int apart = 0;
  for (const Network& network : networks) {
    for (const std::int64_t prompt_tokens : {1, 100}) {
      planner::Request request{.model = transformer,
                               .cluster = network.cluster,
                               .partition = "equal",
                               .allreduce = "auto",
                               .evaluate = evaluate_fair,
                               .workload = {prompt_tokens, 4}};
      const auto chosen = std::get<planner::Plan>(make_plan(request));
      if (chosen.allreduce.prompt != chosen.allreduce.decode) ++apart;
      const double time = generation_time(chosen);
      for (const std::string& allreduce : test::kAllreduces) {
        CAPTURE(network.name);
        CAPTURE(network.cluster.links().front().latency.value());
        CAPTURE(network.cluster.links().front().bandwidth.value());
        CAPTURE(prompt_tokens);
        CAPTURE(allreduce);
        planner::Plan fixed = chosen;
        for (std::string planner::AllreduceChoice::*phase :
             {&planner::AllreduceChoice::prompt, &planner::AllreduceChoice::decode}) {
          fixed.allreduce = chosen.allreduce;
          fixed.allreduce.*phase = allreduce;
          CHECK(time <= 1.01 * generation_time(fixed));
        }
        fixed.allreduce = {allreduce, allreduce};
        CHECK(time <= 1.01 * generation_time(fixed));
      }
    }
  }
  CHECK(apart > 0);  // prompt and decoding do differ
}

}  // namespace
}  // namespace tandem::sim::testing::collective_replay_test
