// Runs of layers that are not alike, of devices and of groups.

#include "planner/partition/exact/run_splits.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <variant>

#include "model/cluster/cluster_edit.hpp"
#include "planner/search/group_search.hpp"
#include "planner/search/rate_search.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/serving_plan.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::run_splits_test {
namespace {

using planner::Plan;
using planner::Request;
using planner::RunStage;
using Counts = std::vector<std::int64_t>;

// Seconds in all, or from sample to sample; infinite where a run does not fit.
double seconds(const std::vector<RunStage>& stages, const Counts& counts, double messages_s,
               std::int64_t samples) {
  double round = messages_s;
  double most = 0.0;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    double busy = stages[i].fixed_s;
    if (begin + counts[i] > stages[i].ends[static_cast<std::size_t>(begin)])
      return std::numeric_limits<double>::infinity();
    for (const std::int64_t end = begin + counts[i]; begin < end; ++begin)
      busy += stages[i].layer_s[static_cast<std::size_t>(begin)];
    round += busy;
    most = std::max(most, busy);
  }
  return samples > 1 ? std::max(round / static_cast<double>(samples), most) : round;
}

void for_all_counts(std::size_t stages, std::int64_t layers, Counts& counts,
                    const std::function<void(const Counts&)>& use) {
  if (counts.size() + 1 == stages) {
    counts.push_back(layers);
    use(counts);
    counts.pop_back();
    return;
  }
  for (std::int64_t own = 1; own < layers; ++own) {
    counts.push_back(own);
    for_all_counts(stages, layers - own, counts, use);
    counts.pop_back();
  }
}

// Two groups of two devices on links that take next to no time, and a model whose first layers are
// larger.
Request unlike_groups() {
  Request request{.model = small_model({.layers = 11,
                                        .heads = 4,
                                        .kv_heads = 4,
                                        .head_dim = 16,
                                        .intermediate = 256,
                                        .vocab = 11}),
                  .cluster = star_cluster(std::vector<DeviceSpec>(4)),
                  .strategy = "pipeline",
                  .workload = {.prompt_tokens = 2, .new_tokens = 30}};
  request.groups = "d0,d1/d2,d3";
  request.cluster = model::with_devices(request.cluster, [](model::Device& device) {
    device.memory_bandwidth = model::BytesPerSecond{1e8};  // less than products ask for
  });
  request.cluster = model::with_links(request.cluster, [](model::Link& link) {
    link.latency = model::Seconds{1e-8};
    link.bandwidth = model::BytesPerSecond{1e12};
  });
  for (std::int32_t layer = 4; layer < 11; ++layer) {
    for (const model::WeightMatrix matrix :
         {model::WeightMatrix::gate, model::WeightMatrix::up, model::WeightMatrix::down})
      request.model.formats.set(matrix, layer, model::WeightFormat::q8_0);
  }
  return request;
}

Plan made(const Request& request) {
  const auto answer = planner::make_plan(request);
  if (const auto* const lacks = std::get_if<planner::Infeasible>(&answer)) FAIL(lacks->reason);
  return std::get<Plan>(answer);
}

// `plan` whose group of d0 and d1 has so many layers, the first ones.
Plan with_first(Plan plan, std::int32_t layers) {
  for (std::size_t d = 0; d < 4; ++d) {
    plan.devices[d].share.layers =
        d < 2 ? model::LayerRuns(0, layers)
              : model::LayerRuns(layers, static_cast<std::int32_t>(plan.model.layers));
  }
  return plan;
}

}  // namespace

TEST_CASE("planner/layer runs: no runs within memory take less, in all or from sample to sample") {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> duration(0.1, 2.0);
  int none = 0;
  for (int trial = 0; trial < 300; ++trial) {
    CAPTURE(trial);
    const std::int64_t layers = 4 + trial % 6;
    std::vector<RunStage> stages(1 + static_cast<std::size_t>(trial) % 4);
    for (RunStage& stage : stages) {
      stage.fixed_s = duration(random);
      std::vector<double> bytes;
      for (std::int64_t layer = 0; layer < layers; ++layer) {
        stage.layer_s.push_back(duration(random));
        bytes.push_back(duration(random));
      }
      const double memory =
          2.5 * duration(random) * static_cast<double>(layers) / static_cast<double>(stages.size());
      stage.ends = planner::run_ends(layers, [&](model::Range run) {
        double sum = 0.0;
        for (std::int32_t layer = run.begin; layer < run.end; ++layer)
          sum += bytes[static_cast<std::size_t>(layer)];
        return sum <= memory;
      });
    }
    const double messages_s = duration(random);
    for (const std::int64_t samples : {1, 2, 5}) {
      CAPTURE(samples);
      double least = std::numeric_limits<double>::infinity();
      Counts counts;
      for_all_counts(stages.size(), layers, counts, [&](const Counts& tried) {
        least = std::min(least, seconds(stages, tried, messages_s, samples));
      });
      const auto found =
          planner::fastest_runs({.stages = stages, .messages_s = messages_s, .samples = samples});
      REQUIRE(found.has_value() == (least < std::numeric_limits<double>::infinity()));
      none += found ? 0 : 1;
      if (found)
        CHECK(seconds(stages, *found, messages_s, samples) == doctest::Approx(least).epsilon(1e-9));
    }
  }
  CHECK(none > 0);
}

TEST_CASE("planner/layer runs: of equal periods the shortest round, of equal rounds even stages") {
  // Sums of tenths differ in their last bits, whichever stage they are of.
  const RunStage stage{.fixed_s = 0.1,
                       .layer_s = std::vector<double>(12, 0.1),
                       .ends = std::vector<std::int32_t>(12, 12)};
  for (const std::int64_t samples : {1, 3, 100}) {
    CAPTURE(samples);
    CHECK(planner::fastest_runs({.stages = std::vector<RunStage>(4, stage), .samples = samples}) ==
          Counts{3, 3, 3, 3});
  }
  // A channel is busy for longer than nine layers take the faster stage.
  RunStage slow = stage;
  std::ranges::fill(slow.layer_s, 0.3);
  CHECK(planner::fastest_runs(
            {.stages = {stage, slow}, .messages_s = 4.0, .channel_s = 2.0, .samples = 100}) ==
        Counts{11, 1});
  CHECK(planner::fastest_runs({.stages = {stage, slow}, .messages_s = 4.0, .samples = 100}) ==
        Counts{9, 3});
}

TEST_CASE("planner/layer runs: layers are alike in formats, windows and rotation") {
  model::Transformer model = unlike_groups().model;
  CHECK(planner::first_equal_layers(model) ==
        std::vector<std::int32_t>{0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4});
  model.window = 3;
  model.windowed = {false, true, false, true, false, true, false, true, false, true, false};
  model.unrotated.assign(11, false);
  model.unrotated[2] = true;
  CHECK(planner::first_equal_layers(model) ==
        std::vector<std::int32_t>{0, 1, 2, 1, 4, 5, 4, 5, 4, 5, 4});
  const model::Transformer like = planner::uniform_model(model, 5, 13);
  CHECK(like.layers == 13);
  CHECK(like.windowed == std::vector<bool>(13, true));
  CHECK(like.format_of(model::WeightMatrix::up, 12) == model::WeightFormat::q8_0);
  CHECK(!like.has_uniform_layers());
  CHECK(planner::first_equal_layers(like) == std::vector<std::int32_t>(13, 0));
}

TEST_CASE("planner/groups: layers that are not alike fit wherever some split of them does") {
  const Plan ample = made(unlike_groups());
  for (std::int32_t first = 1; first < 11; ++first) {
    CAPTURE(first);
    const Plan tight = with_first(ample, first);
    Plan outline = tight;
    std::vector<double> exchange;
    for (const planner::DevicePlan& device : tight.devices)
      exchange.push_back(device.memory.buffers);
    const planner::Budget budget(outline, exchange);
    Request request = unlike_groups();
    request.cluster = model::with_devices(request.cluster, [&](model::Device& device) {
      const auto d = static_cast<std::size_t>(tight.cluster.find(device.name));
      // Less than a layer's beyond, for messages of sums that are not yet chosen.
      device.memory = model::Bytes{budget.use(d, tight.devices[d].share).total() + 2048.0};
      device.disk_bandwidth = model::BytesPerSecond{0.0};
    });
    const Plan plan = made(request);
    CHECK(plan.devices[0].share.layers.size() == first);
  }
}

TEST_CASE("planner/groups: of layers that are not alike no split has a higher rate") {
  Request request = unlike_groups();
  request.objective = planner::Objective::throughput;
  for (const std::int64_t samples : {2, 3, 9}) {
    CAPTURE(samples);
    const auto answer = planner::make_serving_plan(
        request, planner::samples_of({.id = {}, .prompt_tokens = 2, .new_tokens = 30}, samples),
        planner::find_policy("recurrent"), 0);
    REQUIRE(std::holds_alternative<Plan>(answer));
    const auto& plan = std::get<Plan>(answer);
    const double own = planner::request_period(plan);
    for (std::int32_t first = 1; first < 11; ++first) {
      CAPTURE(first);
      CHECK(planner::request_period(with_first(plan, first)) >= own * (1.0 - 1e-9));
    }
  }
}

}  // namespace tandem::test::run_splits_test
