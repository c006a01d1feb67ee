// Layers and order of a chain of devices, by rate.

#include "planner/partition/exact/chain.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "model/cluster/cluster_edit.hpp"
#include "planner/search/rate_search.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/pipeline.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/planner/planner_interpreter.hpp"

namespace tandem::test::chain_test {
namespace {

using planner::ChainProblem;
using planner::ChainSplit;

double period(const ChainProblem& problem, const std::vector<std::int64_t>& layers,
              const std::vector<std::size_t>& order) {
  double round = 0.0;
  double most = 0.0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const planner::ChainDevice& device = problem.devices[order[i]];
    const double seconds = device.fixed_s + device.layer_s * static_cast<double>(layers[order[i]]);
    round += seconds;
    most = std::max(most, seconds);
    if (order.size() == 1) continue;
    const planner::ChainMessage& message =
        problem.messages[order[i]][order[(i + 1) % order.size()]];
    round += message.channel_s + message.latency_s;
    most = std::max(most, message.channel_s);
  }
  return std::max(round / static_cast<double>(problem.samples), most);
}

// The least period of all splits and orders; infinity if nothing fits.
double least_period(const ChainProblem& problem) {
  double least = std::numeric_limits<double>::infinity();
  const std::size_t n = problem.devices.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    std::vector<std::int64_t> layers(n, 1);
    const auto deal = [&](auto&& self, std::size_t d, std::int64_t left) -> void {
      if (d + 1 == n) {
        layers[d] = left;
        if (left >= 1 && left <= problem.devices[d].most)
          least = std::min(least, period(problem, layers, order));
        return;
      }
      for (std::int64_t k = 1; k <= std::min(left, problem.devices[d].most); ++k) {
        layers[d] = k;
        self(self, d + 1, left - k);
      }
    };
    deal(deal, 0, problem.layers);
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return least;
}

ChainProblem random_chain(std::mt19937& random, std::size_t most_devices,
                          std::int64_t most_layers) {
  const auto draw = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  const auto whole = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  const auto n = static_cast<std::size_t>(whole(1, static_cast<std::int64_t>(most_devices)));
  ChainProblem problem{.layers = whole(1, most_layers), .samples = whole(1, 9)};
  const double slow = draw(0.0, 4.0);  // of messages
  for (std::size_t i = 0; i < n; ++i) {
    problem.devices.push_back({.fixed_s = draw(0.0, 2.0),
                               .layer_s = whole(0, 5) == 0 ? 1.0 : draw(0.2, 3.0),
                               .most = whole(0, 9) == 0 ? whole(0, 2) : whole(1, most_layers)});
    auto& row = problem.messages.emplace_back(n);
    for (planner::ChainMessage& message : row)
      message = {.channel_s = draw(0.0, slow), .latency_s = draw(0.0, slow)};
  }
  return problem;
}

}  // namespace

TEST_CASE("planner/chain: 2,000 random chains have the least period of all splits and orders") {
  std::mt19937 random(3);
  int none = 0;
  int tight = 0;  // reach the bound
  for (int trial = 0; trial < 2000; ++trial) {
    CAPTURE(trial);
    const ChainProblem problem = random_chain(random, 5, 9);
    const double least = least_period(problem);
    const std::optional<ChainSplit> split = planner::fastest_chain(problem);
    REQUIRE(split.has_value() == std::isfinite(least));
    if (!split) {
      ++none;
      continue;
    }
    CHECK(split->exact);
    CHECK(split->order.front() == 0);
    CHECK(std::accumulate(split->layers.begin(), split->layers.end(), std::int64_t{0}) ==
          problem.layers);
    CHECK(split->period_s == doctest::Approx(least).epsilon(1e-10));
    CHECK(period(problem, split->layers, split->order) ==
          doctest::Approx(split->period_s).epsilon(1e-12));
    CHECK(split->bound_s <= split->period_s);
    CHECK(split->bound_s >= 0.3 * split->period_s);
    tight += split->bound_s > 0.999 * split->period_s ? 1 : 0;
  }
  CHECK(none > 100);
  CHECK(none < 1500);
  CHECK(tight > 50);
}

TEST_CASE("planner/chain: beyond 12 devices the order is a heuristic, and says so") {
  std::mt19937 random(4);
  for (int trial = 0; trial < 10; ++trial) {
    CAPTURE(trial);
    ChainProblem problem = random_chain(random, 3, 40);
    problem.layers = 40;
    problem.samples = 6;
    problem.devices.assign(14, {.fixed_s = 0.1, .layer_s = 1.0, .most = 40});
    problem.messages.assign(14, std::vector<planner::ChainMessage>(14));
    for (auto& row : problem.messages) {
      for (planner::ChainMessage& message : row)
        message = {.channel_s = std::uniform_real_distribution<double>(0, 6)(random),
                   .latency_s = std::uniform_real_distribution<double>(0, 6)(random)};
    }
    const std::optional<ChainSplit> split = planner::fastest_chain(problem);
    REQUIRE(split);
    CHECK(!split->exact);
    std::vector<std::size_t> given(14);
    std::iota(given.begin(), given.end(), std::size_t{0});
    CHECK(split->period_s <= period(problem, split->layers, given));
    CHECK(split->bound_s <= split->period_s);
    std::vector<std::size_t> sorted = split->order;
    std::ranges::sort(sorted);
    CHECK(sorted == given);
  }
}

namespace {

// Three devices of speeds 1, 4 and 2.
planner::Request three_devices() {
  planner::Request request{.model = small_model({.layers = 14}),
                           .cluster = star_cluster({{1e5}, {4e5}, {2e5}}),
                           .strategy = "pipeline",
                           .workload = {.prompt_tokens = 2, .new_tokens = 30}};
  request.objective = planner::Objective::throughput;
  return request;
}

planner::Plan planned(const planner::Request& request, std::int64_t samples) {
  const auto answer = planner::make_serving_plan(
      request,
      planner::samples_of({.id = {},
                           .prompt_tokens = request.workload.prompt_tokens,
                           .new_tokens = request.workload.new_tokens},
                          samples),
      planner::find_policy("recurrent"), 0);
  REQUIRE(std::holds_alternative<planner::Plan>(answer));
  return std::get<planner::Plan>(answer);
}

}  // namespace

TEST_CASE("planner/rate: many samples ask for even stages, a lone one for the fastest device") {
  const planner::Request request = three_devices();
  const planner::Plan many = planned(request, 12);
  const planner::Plan lone = planned(request, 1);
  CHECK(lone.devices[1].share.layers.size() == 12);
  CHECK(many.devices[0].share.layers.size() == 2);
  CHECK(many.devices[1].share.layers.size() == 8);
  CHECK(many.devices[2].share.layers.size() == 4);
  // No other split has a higher rate: all of them, by hand.
  planner::Request by_hand = request;
  const double period = planner::request_period(many);
  for (int a = 1; a <= 12; ++a) {
    for (int b = 1; a + b <= 13; ++b) {
      by_hand.partition =
          std::to_string(a) + ":" + std::to_string(b) + ":" + std::to_string(14 - a - b);
      CHECK(planner::request_period(planned(by_hand, 12)) >= period * (1.0 - 1e-12));
    }
  }
  const planner::RateBound bound = planner::rate_bound(many).value();
  CHECK(bound.planned_s == doctest::Approx(period).epsilon(1e-12));
  CHECK(bound.lower_bound_s <= period);
  CHECK(bound.lower_bound_s > 0.8 * period);
  CHECK(bound.exact);
}

namespace {

// Three devices alike, and a model whose first layers are larger.
planner::Request unlike_layers() {
  planner::Request request{.model = small_model({.layers = 14,
                                                 .heads = 4,
                                                 .kv_heads = 4,
                                                 .head_dim = 16,
                                                 .intermediate = 256,
                                                 .vocab = 11}),
                           .cluster = star_cluster({{1e13}, {1e13}, {1e13}}),
                           .strategy = "pipeline",
                           .workload = {.prompt_tokens = 2, .new_tokens = 30}};
  request.cluster = model::with_devices(request.cluster, [](model::Device& device) {
    device.memory_bandwidth = model::BytesPerSecond{1e11};  // less than products ask for
  });
  for (std::int32_t layer = 5; layer < 14; ++layer) {
    for (const model::WeightMatrix matrix :
         {model::WeightMatrix::gate, model::WeightMatrix::up, model::WeightMatrix::down})
      request.model.formats.set(matrix, layer, model::WeightFormat::q8_0);
  }
  return request;
}

std::vector<std::string> all_splits(int layers) {
  std::vector<std::string> splits;
  for (int a = 1; a < layers - 1; ++a) {
    for (int b = 1; a + b < layers; ++b)
      splits.push_back(std::to_string(a) + ":" + std::to_string(b) + ":" +
                       std::to_string(layers - a - b));
  }
  return splits;
}

}  // namespace

TEST_CASE(
    "planner/rate: of layers that are not alike no split has a higher rate, and none a bound") {
  planner::Request request = unlike_layers();
  request.objective = planner::Objective::throughput;
  for (const std::int64_t samples : {2, 3, 9}) {
    for (const char* const partition : {"auto", "exact"}) {
      CAPTURE(samples);
      CAPTURE(partition);
      request.partition = partition;
      const planner::Plan plan = planned(request, samples);
      CHECK(!planner::rate_bound(plan));
      const double period = planner::request_period(plan);
      planner::Request by_hand = request;
      for (const std::string& split : all_splits(14)) {
        by_hand.partition = split;
        CHECK(planner::request_period(planned(by_hand, samples)) >= period * (1.0 - 1e-9));
      }
    }
  }
}

TEST_CASE("planner/rate: layers that are not alike fit wherever some split of them does") {
  for (const std::string& split : all_splits(14)) {
    planner::Request request = unlike_layers();
    request.partition = split;
    const auto given = planner::make_plan(request);
    const auto& plan = std::get<planner::Plan>(given);
    request.cluster = model::with_devices(request.cluster, [&](model::Device& device) {
      const auto d = static_cast<std::size_t>(plan.cluster.find(device.name));
      device.memory = model::Bytes{plan.devices[d].memory.total()};
      device.disk_bandwidth = model::BytesPerSecond{0.0};
    });
    for (const char* const partition : {"auto", "exact"}) {
      CAPTURE(split);
      CAPTURE(partition);
      request.partition = partition;
      CHECK(std::holds_alternative<planner::Plan>(planner::make_plan(request)));
      planner::Request many = request;
      many.objective = planner::Objective::throughput;
      CHECK(std::holds_alternative<planner::Plan>(planner::make_plan(many)));
    }
  }
}

TEST_CASE("planner/rate: devices follow one another as links ask, whatever their names") {
  // Between d0, d2, d1 and d3 there are fast ways; all others take the hub's slow links.
  planner::Request request{.model = small_model({.layers = 8}),
                           .cluster = star_cluster({{1e8}, {1e8}, {1e8}, {1e8}}),
                           .strategy = "pipeline",
                           .workload = {.prompt_tokens = 2, .new_tokens = 30}};
  request.objective = planner::Objective::throughput;
  std::vector<model::Link> links = request.cluster.links();
  std::vector<model::Edge> edges = request.cluster.edges();
  for (model::Link& link : links) {
    link.bandwidth = model::BytesPerSecond{1e3};
    link.latency = model::Seconds{1e-7};  // so that no route leads through a device
  }
  const std::vector<std::pair<std::string, std::string>> ways{
      {"d0", "d2"}, {"d2", "d1"}, {"d1", "d3"}, {"d3", "d0"}};
  for (const auto& [from, to] : ways) {
    edges.push_back({from,
                     to,
                     {{static_cast<model::LinkIndex>(links.size()), model::Direction::up}},
                     /*symmetrical=*/false});
    links.push_back({from + to, model::Seconds{1e-6}, model::BytesPerSecond{1e8}});
  }
  request.cluster = {"wired", request.cluster.devices(), request.cluster.routers(), links, edges};
  const planner::Plan plan = planned(request, 6);
  CHECK(planner::stage_order(plan) == std::vector<model::DeviceIndex>{0, 2, 1, 3});
  CHECK(plan.devices[2].share.layers == model::Range{2, 4});
  CHECK(plan.devices[1].share.layers == model::Range{4, 6});
  // It is written and read, and computes what the model does.
  CHECK(planner::parse_plan_json(planner::to_json(plan), "plan") == plan);
  check_generation(plan);
  planner::Request other = request;
  other.partition = "equal";
  CHECK(planner::request_period(plan) < 0.5 * planner::request_period(planned(other, 6)));
}

}  // namespace tandem::test::chain_test
