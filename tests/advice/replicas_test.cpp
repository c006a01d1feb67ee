#include "advice/replicas.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "advice/replica_search.hpp"
#include "model/base/error.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/serving/drawn_requests.hpp"
#include "planner/serving/planned_service.hpp"
#include "planner/serving/serving_plan.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::replicas_test {
namespace {

using planner::InferenceRequest;
using planner::Replica;

constexpr ModelSizes kSizes{
    .layers = 4, .heads = 4, .kv_heads = 4, .head_dim = 8, .intermediate = 64};

model::Transformer model_here() {
  model::Transformer transformer = small_model(kSizes);
  transformer.max_context = 4096;
  return transformer;
}

planner::Request request_of(const model::Cluster& cluster, const std::string& strategy) {
  return {.model = model_here(), .cluster = cluster, .strategy = strategy, .workload = {20, 10}};
}

std::vector<InferenceRequest> alike(std::int64_t count) {
  return planner::samples_of({.id = {}, .prompt_tokens = 20, .new_tokens = 10}, count);
}

// Arrivals about as fast as two devices of 1e6 flop/s serve them.
std::vector<InferenceRequest> drawn(std::int64_t count, std::uint64_t seed) {
  return planner::drawn_requests({.count = count,
                                  .rate = 0.5,
                                  .prompt = {.median = 20, .p99 = 60},
                                  .output = {.median = 6, .p99 = 20},
                                  .seed = seed});
}

// One device alone, which serves `made_for` one after another.
Replica alone(double flops_per_s, const std::vector<InferenceRequest>& made_for) {
  const planner::Policy& policy = planner::find_policy("sequential");
  auto made = planner::make_serving_plan(
      request_of(star_cluster({{.flops_per_s = flops_per_s}}), "local"), made_for, policy, 0);
  REQUIRE(std::holds_alternative<planner::Plan>(made));
  return {.plan = std::get<planner::Plan>(std::move(made)),
          .policy = &policy,
          .made_for = planner::lengths_of(made_for)};
}

study::ReplicaQuestion question(const model::Cluster& cluster,
                                const std::vector<InferenceRequest>& requests) {
  study::Question question{.request = request_of(cluster, "auto")};
  question.request.objective = planner::Objective::throughput;
  question.served = study::ServedWorkload{.requests = requests};
  return {.question = question, .rule = &planner::find_dispatch("least-work")};
}

std::vector<std::size_t> sizes(const study::Division& division) {
  std::vector<std::size_t> all;
  for (const std::vector<std::string>& group : division.groups) all.push_back(group.size());
  std::ranges::sort(all);
  return all;
}

}  // namespace

// One after another, a replica of rate v takes n / v for n equal requests: rates 2 and 1 end
// together with two thirds and one third of them.
TEST_CASE("study/replicas: requests that are present at once are shared out by rate") {
  const std::vector<InferenceRequest> requests = alike(9);
  std::vector<Replica> replicas{alone(2e6, requests), alone(1e6, requests)};
  study::dispatch(requests, planner::find_dispatch("least-work"), replicas);
  CHECK(replicas[0].requests.size() == 6);
  CHECK(replicas[1].requests.size() == 3);
  const model::Result all =
      study::predict_replicas(requests, replicas, study::EvaluatorKind::simgrid).result;
  double end = 0.0;
  for (const model::RequestResult& request : all.requests) end = std::max(end, request.end_s);
  CHECK(*all.metrics.throughput_tokens_per_s == doctest::Approx(90.0 / end).epsilon(1e-9));
  for (std::size_t r = 0; r < requests.size(); ++r) CHECK(all.requests[r].id == requests[r].id);
}

// Later arrivals change nothing before their own: so the counts of open requests can be read from
// the prediction of all.
TEST_CASE("study/replicas: rules that count send each request where the fewest are open") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const char* const rule = seed == 3 ? "leastconn" : "fewest-open";
    CAPTURE(seed);
    const std::vector<InferenceRequest> requests = drawn(20, seed);
    std::vector<Replica> replicas{alone(2e5, requests), alone(1e5, requests), alone(1e5, requests)};
    study::dispatch(requests, planner::find_dispatch(rule), replicas);
    const model::Result all =
        study::predict_replicas(requests, replicas, study::EvaluatorKind::simgrid).result;
    std::size_t busy = 0;
    for (std::size_t r = 0; r < requests.size(); ++r) {
      std::vector<std::size_t> open;
      std::size_t own = 0;
      for (std::size_t i = 0; i < replicas.size(); ++i) {
        open.push_back(static_cast<std::size_t>(
            std::ranges::count_if(replicas[i].requests, [&](std::size_t other) {
              return other < r && all.requests[other].end_s > requests[r].arrival_s;
            })));
        if (std::ranges::find(replicas[i].requests, r) != replicas[i].requests.end()) own = i;
      }
      CHECK(open[own] == *std::ranges::min_element(open));
      busy += open[own] > 0 ? 1 : 0;
    }
    CHECK(busy > 0);  // the rates are such that counting matters
  }
}

TEST_CASE("study/replicas: dispatch knows the limit of a request, not where it ends") {
  std::vector<InferenceRequest> requests = drawn(12, 5);
  for (InferenceRequest& request : requests) request.max_tokens = 40;
  const std::vector<Replica> made{alone(2e5, requests), alone(1e5, requests)};
  const auto sent = [&] {
    std::vector<Replica> replicas = made;
    study::dispatch(requests, planner::find_dispatch("least-work"), replicas);
    return replicas[0].requests;
  };
  const std::vector<std::size_t> before = sent();
  CHECK(before.size() > 0);
  CHECK(before.size() < requests.size());
  for (std::size_t r = 0; r < requests.size(); ++r) requests[r].new_tokens = r % 2 == 0 ? 1 : 40;
  CHECK(sent() == before);
}

TEST_CASE("study/replicas: a request goes only where there is memory for it") {
  const std::vector<InferenceRequest> short_ones = alike(4);
  std::vector<InferenceRequest> requests = short_ones;
  requests.push_back({.id = "long", .prompt_tokens = 200, .new_tokens = 10});
  std::vector<Replica> replicas{alone(1e6, short_ones), alone(1e3, requests)};
  study::dispatch(requests, planner::find_dispatch("least-work"), replicas);
  CHECK(replicas[1].requests == std::vector<std::size_t>{4});
  replicas.pop_back();
  CHECK_THROWS_AS(study::dispatch(requests, planner::find_dispatch("least-work"), replicas), Error);
}

// Messages take longer than computing.
TEST_CASE("study/replicas: equal devices with room for the model are best alone") {
  const std::vector<InferenceRequest> requests = alike(8);
  const model::Cluster four = star_cluster(std::vector<DeviceSpec>(4, {.flops_per_s = 1e8}));
  const study::ReplicaChoice choice = study::choose_replicas(question(four, requests));
  REQUIRE(choice.best);
  const study::Division& best = choice.divisions[*choice.best];
  CHECK(sizes(best) == std::vector<std::size_t>(4, 1));
  for (const Replica& replica : best.replicas) CHECK(replica.requests.size() == 2);
  for (const study::Division& other : choice.divisions) {
    if (!other.replicas.empty()) CHECK(best.seconds <= other.seconds);
  }
}

TEST_CASE("study/replicas: as many replicas as requests have one each") {
  const std::vector<InferenceRequest> requests = alike(3);
  study::ReplicaQuestion asked =
      question(star_cluster(std::vector<DeviceSpec>(4, {.flops_per_s = 1e6})), requests);
  asked.count = 3;
  const study::ReplicaChoice choice = study::choose_replicas(asked);
  REQUIRE(choice.best);
  for (const Replica& replica : choice.divisions[*choice.best].replicas)
    CHECK(replica.requests.size() == 1);
}

TEST_CASE("study/replicas: devices that cannot hold the model alone stay together") {
  const std::vector<InferenceRequest> requests = alike(4);
  const model::Cluster whole = star_cluster({{}});
  auto made = planner::make_serving_plan(request_of(whole, "local"), requests,
                                         planner::find_policy("sequential"), 0);
  const double needs = std::get<planner::Plan>(made).devices[0].memory.total();
  const model::Cluster four =
      star_cluster(std::vector<DeviceSpec>(4, {.flops_per_s = 1e6, .memory_bytes = 0.9 * needs}));
  study::ReplicaQuestion asked = question(four, requests);
  asked.question.request.window = {.blocks = 0, .retain = {}};  // nothing streams
  const study::ReplicaChoice choice = study::choose_replicas(asked);
  REQUIRE(choice.best);
  for (const std::vector<std::string>& group : choice.divisions[*choice.best].groups)
    CHECK(group.size() >= 2);
  asked.count = 4;
  CHECK(!study::choose_replicas(asked).best);
}

TEST_CASE("study/replicas: replicas that would share a link are refused by its name") {
  const model::Link air{.name = "air",
                        .latency = model::Seconds{1e-3},
                        .bandwidth = model::BytesPerSecond{1e6},
                        .sharing = model::Sharing::shared};
  std::vector<model::Device> devices = star_cluster(std::vector<DeviceSpec>(4)).devices();
  std::vector<model::Edge> edges;
  for (const model::Device& device : devices)
    edges.push_back({.from = device.name, .to = "ap", .hops = {{.link = 0}}});
  const model::Cluster home("home", devices, {"ap"}, {air}, edges);
  const std::vector<InferenceRequest> requests = alike(4);
  const auto pair_of = [&](const std::vector<bool>& used) {
    const planner::Request request = request_of(home, "pipeline");
    const planner::Policy& policy = planner::find_policy("continuous");
    auto made =
        planner::make_serving_plan(planner::for_devices(request, used), requests, policy, 0);
    return Replica{.plan = std::get<planner::Plan>(std::move(made)), .policy = &policy};
  };
  const std::vector<Replica> pairs{pair_of({true, true, false, false}),
                                   pair_of({false, false, true, true})};
  CHECK(planner::shared_link(pairs).find("'air'") != std::string::npos);
  const std::vector<Replica> one{pairs.front(), alone(1e6, requests)};
  CHECK(planner::shared_link(one).empty());
}

TEST_CASE("study/replicas: a limit of evaluations ends at the same plans, and says so") {
  const std::vector<InferenceRequest> requests = drawn(6, 4);
  study::ReplicaQuestion asked = question(
      star_cluster({{.flops_per_s = 1e6}, {.flops_per_s = 2e6}, {.flops_per_s = 4e6}}), requests);
  asked.limits.evaluations = 20;
  const study::ReplicaChoice first = study::choose_replicas(asked);
  const study::ReplicaChoice again = study::choose_replicas(asked);
  REQUIRE(first.best);
  CHECK(!first.to_the_end);
  CHECK(first.evaluations == again.evaluations);
  CHECK(first.divisions[*first.best].seconds == again.divisions[*again.best].seconds);
}

}  // namespace tandem::test::replicas_test
