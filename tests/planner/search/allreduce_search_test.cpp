#include "planner/search/allreduce_search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "model/base/error.hpp"
#include "planner/search/search.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/collective_fixture.hpp"

namespace tandem::test::allreduce_search_test {
namespace {

using planner::AllreduceChoice;
using planner::Plan;
using planner::Request;
using Names = std::vector<std::string>;

Request request_on(const model::Cluster& cluster, const std::string& allreduce) {
  return {.model = small_model(
              {.layers = 3, .heads = 16, .kv_heads = 16, .head_dim = 8, .intermediate = 64}),
          .cluster = cluster,
          .partition = "equal",
          .allreduce = allreduce,
          .workload = {.prompt_tokens = 30, .new_tokens = 4}};
}

Plan planned(const Request& request) { return std::get<Plan>(make_plan(request)); }

TEST_CASE("planner/allreduce: auto takes every collective once") {
  const auto candidates = [](const model::Cluster& cluster) {
    return planner::allreduce_candidates(planned(request_on(cluster, "star")));
  };
  // The table's names, but for `tree` and `hierarchical`.
  const auto expected = [](const Names& trees, const Names& hierarchical) {
    Names names;
    for (const planner::Collective& row : planner::collectives()) {
      if (row.name == "tree") {
        names.insert(names.end(), trees.begin(), trees.end());
      } else if (row.name == "hierarchical") {
        names.insert(names.end(), hierarchical.begin(), hierarchical.end());
      } else {
        names.push_back(row.name);
      }
    }
    return names;
  };
  CHECK(candidates(access_of(1, 1e-3, 1e6)) == Names{"star"});
  CHECK(candidates(access_of(2, 1e-3, 1e6)) == expected({}, {}));
  CHECK(candidates(access_of(3, 1e-3, 1e6)) == expected({"tree:2"}, {}));
  CHECK(candidates(access_of(8, 1e-3, 1e6)) == expected({"tree:2", "tree:3"}, {}));
  CHECK(candidates(homes_of(2, 4, 1e-3, 5e-3, 1e6)) ==
        expected({"tree:2", "tree:3"}, {"hierarchical"}));
}

TEST_CASE("planner/allreduce: auto never loses to a fixed choice by the evaluator it was given") {
  int others = 0;
  for (const double latency : {0.0, 1e-4, 1e-2}) {
    for (const double bandwidth : {1e5, 1e7, 1e9}) {
      const model::Cluster cluster = homes_of(2, 3, latency, 4 * latency, bandwidth);
      const Plan chosen = planned(request_on(cluster, "auto"));
      const auto time = [&](const AllreduceChoice& choice) {
        Plan plan = chosen;
        plan.allreduce = choice;
        planner::GenerationSteps steps(plan);
        model::RunRecorder recorder(plan.cluster, plan.master, false);
        model::evaluate_analytic(plan.cluster, plan.cost_model(), steps, recorder);
        return recorder.metrics().token_times_s.back();
      };
      if (chosen.allreduce.prompt != "star") ++others;
      for (const std::string& prompt : kAllreduces) {
        for (const std::string& decode : kAllreduces) {
          CAPTURE(latency);
          CAPTURE(bandwidth);
          CAPTURE(prompt);
          CAPTURE(decode);
          CHECK(time(chosen.allreduce) <= 1.01 * time({prompt, decode}));
        }
      }
    }
  }
  CHECK(others > 0);
}

TEST_CASE(
    "planner/allreduce: what cannot be the fastest is not evaluated, and the fastest is found") {
  for (const double bandwidth : {1e5, 1e7, 1e9}) {
    CAPTURE(bandwidth);
    const model::Cluster cluster = homes_of(2, 3, 1e-4, 4e-4, bandwidth);
    // On a network that is slower by far, no bound leaves anything out.
    model::Cluster slower = homes_of(2, 3, 10.0, 40.0, 1e-4 * bandwidth);
    const Plan plan = planned(request_on(cluster, "star"));
    int calls = 0;
    const planner::Evaluator evaluate = [&](const model::Cluster&, const model::CostModel& costs,
                                            model::Steps& steps, model::RunRecorder& recorder) {
      ++calls;
      model::evaluate_analytic(slower, costs, steps, recorder);
    };
    static_cast<void>(planner::fastest_sums(plan, {"auto", "auto"}, evaluate));
    const int all = std::exchange(calls, 0);
    slower = homes_of(2, 3, 1e-4, 9e-4, 0.4 * bandwidth);
    const planner::Sums chosen = planner::fastest_sums(plan, {"auto", "auto"}, evaluate);
    CHECK(calls < all);
    const auto time = [&](const std::string& name) {
      Plan fixed = plan;
      fixed.allreduce = {name, name};
      const planner::Sums sums = planner::fastest_sums(fixed, fixed.allreduce, evaluate);
      fixed.layout = sums.layout;
      return planner::trial_request_time(fixed, evaluate);
    };
    Plan best = plan;
    best.allreduce = chosen.allreduce;
    best.layout = chosen.layout;
    const double least = planner::trial_request_time(best, evaluate);
    for (const std::string& name : planner::allreduce_candidates(plan))
      CHECK(least <= time(name) * (1.0 + 1e-9));
  }
}

TEST_CASE("planner/allreduce: a composition of one phase has groups, whatever the other's sums") {
  // One router: only latencies part the devices.
  model::Cluster cluster = access_of(4, 1e-4, 1e6);
  std::vector<model::Link> links = cluster.links();
  for (const std::size_t far : {2U, 3U}) links[far].latency = model::Seconds{1e-2};
  cluster = {cluster.name(), cluster.devices(), cluster.routers(), links, cluster.edges()};
  for (const char* const sums :
       {"hierarchical:ring+star", "auto,hierarchical:ring+star", "hierarchical:star+ring,auto",
        "star,hierarchical:ring+star", "hierarchical:star+ring,ring"}) {
    CAPTURE(sums);
    const Plan plan = planned(request_on(cluster, sums));
    const std::set<std::int32_t> groups(plan.layout.group.begin(), plan.layout.group.end());
    CHECK(groups.size() > 1);
    CHECK(groups.size() < 4);
  }
  const model::Cluster alike = access_of(4, 1e-4, 1e6);
  for (const char* const sums : {"hierarchical:ring+star", "auto,hierarchical:ring+star"}) {
    CAPTURE(sums);
    CHECK_THROWS_WITH_AS((void)make_plan(request_on(alike, sums)),
                         doctest::Contains("allreduce 'hierarchical:ring+star': neither wiring"),
                         Error);
  }
  CHECK(planned(request_on(alike, "auto")).allreduce.prompt.find('+') == std::string::npos);
}

TEST_CASE("planner/allreduce: auto plans as if nothing varied") {
  const model::Cluster calm = homes_of(2, 3, 1e-3, 4e-3, 1e7);
  std::vector<model::Link> links = calm.links();
  for (model::Link& link : links) {
    link.jitter = model::Seconds{0.2};
    link.background = model::BytesPerSecond{5e6};
  }
  const model::Cluster varying(calm.name(), calm.devices(), calm.routers(), links, calm.edges());
  Request request = request_on(varying, "auto");
  bool varied = false;
  request.evaluate = [&](const model::Cluster& cluster, auto&&... others) {
    varied = varied || !variation(cluster).empty();
    model::evaluate_analytic(cluster, others...);
  };
  const Plan chosen = planned(request);
  CHECK(!varied);
  CHECK(chosen.allreduce == planned(request_on(calm, "auto")).allreduce);
  CHECK(variation(chosen.cluster) != "");
}

TEST_CASE("planner/allreduce: a prompt of one token is summed as new tokens are") {
  for (const std::int64_t new_tokens : {1, 4}) {
    for (const double bandwidth : {1e4, 1e9}) {
      Request request = request_on(homes_of(2, 3, 1e-4, 4e-4, bandwidth), "auto");
      request.workload = {.prompt_tokens = 1, .new_tokens = new_tokens};
      const Plan chosen = planned(request);
      CHECK(chosen.allreduce.prompt == chosen.allreduce.decode);
      const auto time = [&](const std::string& allreduce) {
        Plan plan = chosen;
        plan.allreduce = {allreduce, allreduce};
        planner::GenerationSteps steps(plan);
        model::RunRecorder recorder(plan.cluster, plan.master, false);
        model::evaluate_analytic(plan.cluster, plan.cost_model(), steps, recorder);
        return recorder.metrics().token_times_s.back();
      };
      for (const std::string& other : kAllreduces)
        CHECK(time(chosen.allreduce.decode) <= 1.01 * time(other));
    }
  }
}

TEST_CASE("planner/allreduce: equal times are the first candidate's") {
  // Rounded sums of equal terms differ in their last digits; no collective may win by them.
  Request request = request_on(homes_of(2, 3, 1e-3, 4e-3, 1e7), "auto");
  request.evaluate = [n = 0](const model::Cluster& cluster, const model::CostModel& costs,
                             model::Steps& steps, model::RunRecorder& recorder) mutable {
    model::evaluate_analytic(cluster, costs, steps, recorder);
    ++n;
    recorder.record({.kind = model::TaskKind::sample,
                     .lane = model::LaneKind::cpu,
                     .end = 1000.0 * (1.0 - 1e-12 * n)});
  };
  CHECK(planned(request).allreduce == AllreduceChoice{"star", "star"});
}

TEST_CASE("planner/allreduce: prompt and decoding can be given apart") {
  const model::Cluster cluster = access_of(4, 1e-3, 1e6);
  CHECK(planned(request_on(cluster, "ring")).allreduce == AllreduceChoice{"ring", "ring"});
  CHECK(planned(request_on(cluster, "ring,tree:3")).allreduce == AllreduceChoice{"ring", "tree:3"});
  CHECK(planned(request_on(cluster, "auto,halving")).allreduce.decode == "halving");
  for (const char* text : {"", ",", "ring,", ",ring", "ring,ring,ring", "auto,comet"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS((void)make_plan(request_on(cluster, text)),
                         doctest::Contains("unknown, expected one of star"), Error);
  }
}

TEST_CASE("planner/allreduce: auto plans where the memory holds what one collective needs") {
  Request request = request_on(access_of(4, 1e-3, 1e6), "star");
  const Plan star = planned(request);
  request.allreduce = "ring";
  const Plan ring = planned(request);
  // The star's master keeps more messages than a device of the ring.
  REQUIRE(ring.devices[0].memory.total() < star.devices[0].memory.total());
  request.allreduce = "auto";
  request.memory_limit =
      model::Bytes{(ring.devices[0].memory.total() + star.devices[0].memory.total()) / 2.0};
  const Plan plan = planned(request);
  CHECK(plan.devices[0].memory.total() <= request.memory_limit->value());
}

TEST_CASE("planner/allreduce: a ring of too many tasks for a plan is refused") {
  Plan plan = planned(request_on(access_of(8, 1e-3, 1e6), "ring"));
  plan.model.layers = 1000;  // 2 * 1000 * 3 * 8 * 7 tasks
  for (planner::DevicePlan& device : plan.devices) device.share.layers = {0, 1000};
  plan.validate();
  std::vector<planner::DevicePlan> devices = plan.devices;
  plan.cluster = access_of(64, 1e-3, 1e6);
  devices.resize(64);
  plan.devices = devices;
  plan.profiles.resize(64, plan.profiles.front());
  CHECK_THROWS_WITH_AS(plan.validate(), doctest::Contains("plan with '--allreduce star'"), Error);
}

}  // namespace
}  // namespace tandem::test::allreduce_search_test
