#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "model/predict/analytic.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/partition/budget.hpp"
#include "planner/search/window_search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/support/random_clusters.hpp"

namespace tandem::test::monotony_test {
namespace {

using planner::make_plan;
using planner::Plan;
using planner::predicted_request_time;
using planner::Request;

constexpr double kRounding = 1.0 + 1e-9;

// What a better cluster made worse.
struct Count {
  int cases = 0;
  int slower = 0;
  int lost = 0;       // a plan before, none after
  double most = 0.0;  // the largest ratio of times, less 1
};

double part(int of, int all) { return static_cast<double>(of) / all; }

// A small model on a random cluster of 2 to 6 devices, whose memory is `memory` to 10 times what
// the model takes, divided by the devices.
Request random_request(RandomClusters& draw, double memory) {
  const std::int64_t heads = std::int64_t{4} << draw.integer(0, 2);
  Request request{
      .model = {.name = "random",
                .layers = draw.integer(6, 12),
                .hidden = heads * 32,
                .heads = heads,
                .kv_heads = heads >> draw.integer(0, 2),
                .head_dim = 32,
                .intermediate = heads * 90 + draw.integer(0, 50),
                .vocab = 500,
                .max_context = 512},
      .cluster = draw.cluster(1, 1e9, 1e9),
      .workload = {.prompt_tokens = draw.integer(1, 100), .new_tokens = draw.integer(1, 40)}};
  const model::Transformer& t = request.model;
  const auto devices = static_cast<int>(draw.integer(2, 6));
  const double bytes =
      4.0 *
      static_cast<double>(t.layers * (4 * t.hidden * t.hidden + 3 * t.hidden * t.intermediate));
  const double least = memory * bytes / devices;
  request.cluster = draw.cluster(devices, least, least + 10.0 * memory * bytes / devices);
  return request;
}

struct Cases {
  std::uint32_t seed = 0;
  int number = 0;
  std::array<double, 2> memory{};  // of even and odd requests, as of random_request
};

std::optional<Plan> planned(const Request& request) {
  auto made = make_plan(request);
  if (!std::holds_alternative<Plan>(made)) return std::nullopt;
  return std::get<Plan>(std::move(made));
}

std::optional<Plan> planned_anew(const Request& better, const Plan& /*before*/) {
  return planned(better);
}

std::optional<Plan> kept(const Request& better, const Plan& before) {
  Plan plan = before;
  plan.cluster = better.cluster;
  for (std::size_t d = 0; d < plan.profiles.size(); ++d)
    plan.profiles[d] = model::nominal_profile(plan.cluster.devices()[d]);
  return plan;
}

// Plans random requests, each changed by `change` and its number, and once more by `again` when one
// thing of the cluster has got better.
template <class Change, class Again>
Count count(const Cases& cases, const Change& change, const Again& again) {
  RandomClusters draw(cases.seed);
  Count count;
  for (int i = 0; i < cases.number; ++i) {
    Request request = random_request(draw, cases.memory.at(static_cast<std::size_t>(i) % 2));
    change(request, i);
    const std::optional<Plan> before = planned(request);
    request.cluster = draw.improved(
        request.cluster, kImprovements.at(static_cast<std::size_t>(i) % kImprovements.size()));
    if (!before) continue;
    ++count.cases;
    const std::optional<Plan> after = again(request, *before);
    if (!after) {
      ++count.lost;
      continue;
    }
    const double was = predicted_request_time(*before);
    const double is = predicted_request_time(*after);
    if (is <= was * kRounding) continue;
    ++count.slower;
    count.most = std::max(count.most, is / was - 1.0);
  }
  MESSAGE(count.cases, " cases, ", count.slower, " slower, by ", 100.0 * count.most, "% at most, ",
          count.lost, " lost");
  return count;
}

// Requests of one kind, planned anew.
template <class Change>
Count count(std::uint32_t seed, int number, double memory, const Change& change) {
  return count(
      {.seed = seed, .number = number, .memory = {memory, memory}},
      [&](Request& request, int /*i*/) { change(request); }, planned_anew);
}

TEST_CASE("planner/monotony: a plan that stays as it is never takes longer on a better cluster" *
          doctest::test_suite("long")) {
  const Count result = count(
      {.seed = 1, .number = 300, .memory = {2.0, 0.3}},
      [](Request& request, int i) {
        request.strategy = i % 5 == 0 ? "pipeline" : "tensor";
        request.partition = "equal";
        if (i % 5 != 0) {
          const char* const allreduces[] = {"star", "tree", "ring", "halving", "hierarchical"};
          request.allreduce = allreduces[i % 7 % 5];
        }
        request.window = {.blocks = std::nullopt};
      },
      kept);
  CHECK(result.cases >= 200);
  CHECK(result.slower == 0);
}

TEST_CASE("planner/monotony: given shares, and pipelines, are never slower on a better cluster" *
          doctest::test_suite("long")) {
  for (const char* partition : {"equal", "auto"}) {
    CAPTURE(partition);
    const bool pipeline = std::string(partition) == "auto";
    const Count result = count(2, 300, 2.0, [&](Request& request) {
      request.strategy = pipeline ? "pipeline" : "tensor";
      request.partition = partition;
    });
    CHECK(result.cases >= 250);
    CHECK(result.slower == 0);
    CHECK(result.lost == 0);
  }
}

TEST_CASE("planner/monotony: auto shares on a better cluster are hardly ever slower, by little" *
          doctest::test_suite("long")) {
  const Count galaxy = count(3, 300, 2.0, [](Request& request) { request.partition = "galaxy"; });
  const Count found = count(3, 300, 2.0, [](Request& request) { request.partition = "auto"; });
  CHECK(found.cases >= 250);
  CHECK(found.lost == 0);
  CHECK(part(found.slower, found.cases) <= 0.02);
  CHECK(found.most <= 0.05);
  // The paper's heuristic promises nothing.
  CHECK(part(galaxy.slower, galaxy.cases) >= 0.02);
}

TEST_CASE("planner/monotony: where memory is short, a better cluster never loses its plan" *
          doctest::test_suite("long")) {
  const Count found = count(4, 140, 0.45, [](Request& request) { request.partition = "auto"; });
  CHECK(found.cases >= 100);
  CHECK(found.lost == 0);
  CHECK(part(found.slower, found.cases) <= 0.02);
}

TEST_CASE("planner/monotony: auto is never slower than Galaxy's and equal shares" *
          doctest::test_suite("long")) {
  RandomClusters draw(5);
  double sum = 0.0;
  int cases = 0;
  for (int i = 0; i < 40; ++i) {
    Request request = random_request(draw, 1.0);
    request.allreduce = i % 2 == 0 ? "star" : "ring";
    const auto found = make_plan(request);
    for (const char* partition : {"galaxy", "equal"}) {
      CAPTURE(i);
      CAPTURE(partition);
      request.partition = partition;
      const auto other = make_plan(request);
      if (!std::holds_alternative<Plan>(other)) continue;
      REQUIRE(std::holds_alternative<Plan>(found));
      const double ratio = predicted_request_time(std::get<Plan>(found)) /
                           predicted_request_time(std::get<Plan>(other));
      CHECK(ratio <= kRounding);
      if (partition != std::string("galaxy")) continue;
      sum += std::log(ratio);
      ++cases;
    }
  }
  MESSAGE("auto takes ", 100.0 * std::exp(sum / cases), "% of the time of Galaxy's shares");
}

// A device of 0.1 Gf once gave a faster plan than one of 1 Gf.
TEST_CASE("planner/monotony: a device from 1 Mf to 1 Tf only ever helps, with a ring within 1%" *
          doctest::test_suite("long")) {
  for (const char* allreduce : {"star", "ring"}) {
    double before = std::numeric_limits<double>::infinity();
    for (double flops = 1e6; flops <= 1e12; flops *= std::pow(10.0, 0.5)) {
      CAPTURE(allreduce);
      CAPTURE(flops);
      RandomClusters draw(6);
      Request request = random_request(draw, 100.0);
      request.allreduce = allreduce;
      std::vector<model::Device> devices = request.cluster.devices();
      devices.back().flop_rate = model::FlopsPerSecond{flops};
      devices.back().memory_bandwidth = model::BytesPerSecond{flops};
      request.cluster = {"ladder", devices, request.cluster.routers(), request.cluster.links(),
                         request.cluster.edges()};
      const double time = predicted_request_time(std::get<Plan>(make_plan(request)));
      CHECK(time <= before * (allreduce == std::string("star") ? kRounding : 1.01));
      before = std::min(before, time);
    }
  }
}

TEST_CASE("planner/monotony: a better link hardly ever lengthens laid-out sums, nor those of auto" *
          doctest::test_suite("long")) {
  for (const char* allreduce : {"tree", "ring", "hierarchical", "auto"}) {
    CAPTURE(allreduce);
    const Count result = count(7, 150, 2.0, [&](Request& request) {
      request.partition = "equal";
      request.allreduce = allreduce;
    });
    CHECK(result.lost == 0);
    CHECK(part(result.slower, result.cases) <= 0.02);
  }
}

TEST_CASE("planner/monotony: windows of given shares are never slower on a better cluster" *
          doctest::test_suite("long")) {
  const Count result = count(10, 150, 0.45, [](Request& request) {
    request.partition = "equal";
    request.window = {.blocks = std::nullopt};
  });
  CHECK(result.cases >= 75);
  CHECK(result.lost == 0);
  CHECK(result.slower == 0);
}

TEST_CASE("planner/monotony: windows and shares on a better cluster are hardly ever slower" *
          doctest::test_suite("long")) {
  const Count result =
      count(8, 30, 0.12, [](Request& request) { request.window = {.blocks = std::nullopt}; });
  CHECK(result.cases >= 16);
  CHECK(result.lost == 0);
  CHECK(part(result.slower, result.cases) <= 0.08);
  CHECK(result.most <= 0.1);  // 1.18 where shares were found as if nothing streamed
}

TEST_CASE("planner/monotony: a split that fits is found wherever there is one" *
          doctest::test_suite("long")) {
  // All splits of tiny models, against the search's answer.
  RandomClusters draw(9);
  int feasible = 0;
  int infeasible = 0;
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    Request request = random_request(draw, 1.0);
    request.model.heads = request.model.hidden / 32;
    request.model.intermediate = 6;
    request.model.layers = 2;
    const double bytes = model::weight_bytes(
        request.model, {.layers = {0, 2},
                        .heads = {0, static_cast<std::int32_t>(request.model.heads)},
                        .columns = {0, 6},
                        .embedding = true,
                        .head = true});
    request.cluster = draw.cluster(2, bytes * 0.3, bytes * 1.2);
    bool any = false;
    for (std::int64_t heads = 0; heads <= request.model.heads && !any; ++heads) {
      for (std::int64_t columns = 0; columns <= 6 && !any; ++columns) {
        const planner::Split split{{heads, request.model.heads - heads}, {columns, 6 - columns}};
        Plan plan{.strategy = "tensor",
                  .partition = "given",
                  .allreduce = {"star", "star"},
                  .layout = planner::wiring(request.cluster, 0),
                  .model = request.model,
                  .cluster = request.cluster,
                  .workload = request.workload,
                  .devices = {},
                  .profiles = {}};
        for (const model::Device& device : plan.cluster.devices())
          plan.profiles.push_back(model::nominal_profile(device));
        const bool idle = heads + columns == 0 ||
                          heads + columns == request.model.heads + request.model.intermediate;
        if (idle) continue;
        // Shares are sought within what messages take where both devices do everything, though
        // a few splits with no heads or no columns somewhere need less.
        const auto memory_of = [&plan](const planner::Split& of) {
          plan.devices.clear();
          for (const model::Share& share : planner::to_shares(plan.model, 0, of))
            plan.devices.push_back({.share = share, .memory = {}});
          return planner::predicted_memory(plan);
        };
        std::vector<double> exchange;
        for (const model::MemoryUse& use : memory_of({{1, 1}, {1, 1}}))
          exchange.push_back(use.buffers);
        const std::vector<model::MemoryUse> memory = memory_of(split);
        any = planner::Budget(plan, exchange).fits(split) &&
              memory[0].total() <= plan.cluster.devices()[0].memory.value() &&
              memory[1].total() <= plan.cluster.devices()[1].memory.value();
      }
    }
    CHECK(std::holds_alternative<Plan>(make_plan(request)) == any);
    ++(any ? feasible : infeasible);
  }
  CHECK(feasible > 10);
  CHECK(infeasible > 10);
}

}  // namespace
}  // namespace tandem::test::monotony_test
