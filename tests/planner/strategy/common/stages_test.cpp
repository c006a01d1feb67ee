// Pipelines as lists of stages: several rounds, and groups of devices.

#include "planner/strategy/common/stages.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "model/base/error.hpp"
#include "model/graph/conflicts.hpp"
#include "model/graph/work.hpp"
#include "model/predict/analytic.hpp"
#include "model/transformer/layer_runs.hpp"
#include "planner/partition/exact/streamed_layers.hpp"
#include "planner/partition/layer_partition.hpp"
#include "planner/search/group_search.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/stage_ring.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/planner/planner_interpreter.hpp"
#include "tests/support/recurrent_fixture.hpp"

namespace tandem::test::stages_test {
namespace {

using model::LayerRuns;
using model::Range;
using planner::Plan;
using planner::Request;

Request request_for(std::size_t devices, std::int64_t layers, const std::string& partition) {
  return {.model = small_model({.layers = layers, .heads = 6, .kv_heads = 3, .intermediate = 7}),
          .cluster = star_cluster(std::vector<DeviceSpec>(devices)),
          .strategy = "pipeline",
          .partition = partition,
          .workload = {.prompt_tokens = 5, .new_tokens = 3}};
}

Plan made(const Request& request) {
  const auto answer = planner::make_plan(request);
  REQUIRE(std::holds_alternative<Plan>(answer));
  return std::get<Plan>(answer);
}

std::vector<Range> runs_of(const LayerRuns& layers) {
  std::vector<Range> runs;
  for (std::size_t i = 0; i < layers.run_count(); ++i) runs.push_back(layers.run(i));
  return runs;
}

}  // namespace

TEST_CASE("model/layer runs: touching runs are one, layers have places, an iteration gives all") {
  const LayerRuns runs(std::vector<Range>{{0, 2}, {3, 3}, {5, 6}, {6, 8}, {10, 11}});
  CHECK(runs_of(runs) == std::vector<Range>{{0, 2}, {5, 8}, {10, 11}});
  CHECK(runs.size() == 6);
  std::vector<std::int32_t> layers;
  for (const std::int32_t layer : runs) layers.push_back(layer);
  CHECK(layers == std::vector<std::int32_t>{0, 1, 5, 6, 7, 10});
  for (std::size_t i = 0; i < layers.size(); ++i)
    CHECK(runs.place(layers[i]) == static_cast<std::int32_t>(i));
  CHECK(runs.contains(7));
  CHECK(!runs.contains(3));
  CHECK(!runs.contains(8));
  CHECK_THROWS((void)runs.place(3));
  CHECK_THROWS(LayerRuns(std::vector<Range>{{3, 5}, {4, 6}}));
  CHECK(LayerRuns(std::vector<Range>{{2, 3}, {3, 5}}) == LayerRuns(2, 5));
  for (const std::int32_t layer : LayerRuns()) FAIL(layer);
}

TEST_CASE("planner/stages: K rounds give each device K runs, as equal as whole numbers allow") {
  const Plan plan = made([] {
    Request request = request_for(3, 14, "6:5:3");
    request.rounds = 3;
    return request;
  }());
  CHECK(runs_of(plan.devices[0].share.layers) == std::vector<Range>{{0, 2}, {4, 6}, {9, 11}});
  CHECK(runs_of(plan.devices[1].share.layers) == std::vector<Range>{{2, 3}, {6, 8}, {11, 13}});
  CHECK(runs_of(plan.devices[2].share.layers) == std::vector<Range>{{3, 4}, {8, 9}, {13, 14}});
  const std::vector<planner::Stage> stages = planner::stages(plan);
  CHECK(stages.size() == 9);
  CHECK(stages[4] == planner::Stage{.devices = {1}, .root = 1, .layers = {6, 8}});
  CHECK(planner::has_rounds(plan));
  CHECK(!planner::has_groups(plan));
}

TEST_CASE("planner/stages: a master of fewer layers than rounds has the first one") {
  for (const std::string partition : {"1:5:6", "2:5:5", "3:1:8"}) {
    for (const std::int32_t rounds : {2, 3, 5}) {
      CAPTURE(partition);
      CAPTURE(rounds);
      Request request = request_for(3, 12, partition);
      request.rounds = rounds;
      const Plan plan = made(request);
      CHECK(plan.devices[0].share.layers.first() == 0);
      CHECK(plan.devices[0].share.layers.size() == static_cast<std::size_t>(partition[0] - '0'));
      check_generation(plan);
    }
  }
}

TEST_CASE("planner/stages: any number of rounds gives the unsharded model's logits") {
  for (const std::size_t devices : std::initializer_list<std::size_t>{1, 2, 3, 5}) {
    for (const std::int32_t rounds : {1, 2, 3, 4}) {
      for (const std::int32_t window : {0, 1, 2, 3}) {
        CAPTURE(devices);
        CAPTURE(rounds);
        CAPTURE(window);
        Request request = request_for(devices, 13, "equal");
        request.rounds = rounds;
        request.window = {.blocks = window, .retain = window == 2 ? 2 : 0};
        request.release = window == 3 ? model::ReleaseRule::late : model::ReleaseRule::early;
        const Plan plan = made(request);
        CHECK(planner::has_rounds(plan) == (rounds > 1 && devices > 1));
        check_generation(plan);
        CHECK(planner::parse_plan_json(planner::to_json(plan), "plan") == plan);
      }
    }
  }
}

TEST_CASE("planner/stages: rounds and groups compute chunks, scored texts and several sequences") {
  for (const std::int32_t rounds : {2, 3}) {
    CAPTURE(rounds);
    Request request = request_for(3, 10, "equal");
    request.rounds = rounds;
    check_batches(made(request), true);
  }
  for (const std::string groups : {"d0,d1/d2,d3", "d1/d0,d2/d3,d4"}) {
    CAPTURE(groups);
    Request request =
        request_for(static_cast<std::size_t>(std::ranges::count(groups, 'd')), 5, "equal");
    request.groups = groups;
    check_batches(made(request), true);
  }
}

TEST_CASE("planner/stages: K rounds of N devices send K N messages a step") {
  for (const std::int32_t rounds : {1, 2, 4}) {
    Request request = request_for(3, 12, "equal");
    request.rounds = rounds;
    const Plan plan = made(request);
    const model::TaskGraph graph =
        planner::find_strategy("pipeline").tasks(plan, planner::decode_batch(5));
    CHECK(std::ranges::count(graph.tasks(), model::TaskKind::transfer, &model::Task::kind) ==
          3 * rounds);
  }
}

TEST_CASE("planner/stages: rounds that cannot be are refused with the reason") {
  Request request = request_for(3, 12, "equal");
  request.rounds = 13;
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("expected 1 to 12"),
                       Error);
  request.rounds = 2;
  request.capacity = {.rows = 5, .positions = 64, .sequences = 2, .steps = 2};
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("--in-flight 1"),
                       Error);
  request.capacity = {};
  Plan plan = made(request);
  plan.capacity = {.rows = 5, .positions = 64, .sequences = 2, .steps = 2};
  CHECK_THROWS_WITH_AS(plan.validate(), doctest::Contains("goes round several times"), Error);
  request.strategy = "tensor";
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("has none"), Error);
  request.strategy = "pipeline";
  request.partition = "halda";
  request.rounds = 5;
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("divisor"), Error);
  plan = made(request_for(2, 8, "equal"));
  plan.layout = planner::wiring(plan.cluster, 0);
  CHECK_THROWS_WITH_AS(plan.validate(), doctest::Contains("order: 2: expected none"), Error);
  // A plan whose runs overlap or leave a gap.
  request = request_for(2, 8, "equal");
  request.rounds = 2;
  plan = made(request);
  plan.devices[1].share.layers = LayerRuns(std::vector<Range>{{2, 4}, {7, 8}});
  CHECK_THROWS_WITH_AS(plan.validate(), doctest::Contains("expected them to begin at 6"), Error);
}

TEST_CASE("planner/stages: equal parts stream while others compute, so rounds hide their disks") {
  // One token: four devices of two layers, loads as long as computing all layers once round.
  Request request = request_for(4, 16, "equal");
  request.cluster = star_cluster(std::vector<DeviceSpec>(4, {.disk_bytes_per_s = 3e8}));
  request.workload = {.prompt_tokens = 1, .new_tokens = 12};
  request.window = {.blocks = 2, .retain = 0};
  double before = 1e9;
  for (const std::int32_t rounds : {1, 2, 4}) {
    request.rounds = rounds;
    const Plan plan = made(request);
    const double time = planner::predicted_request_time(plan);
    CHECK(time > 0.0);
    if (rounds == 1) before = time;
  }
  request.rounds.reset();
  const Plan best = made(request);
  CHECK(planner::predicted_request_time(best) <= before * (1.0 + 1e-9));
}

TEST_CASE("planner/stages: auto goes round once where nothing streams") {
  Request request = request_for(3, 12, "auto");
  request.rounds.reset();
  CHECK(!planner::has_rounds(made(request)));
}

namespace {

// All ways to give `layers` to devices, at least one each.
void all_splits(std::int64_t layers, std::size_t devices, std::vector<std::int64_t>& split,
                const std::function<void()>& visit) {
  if (split.size() + 1 == devices) {
    split.push_back(layers);
    visit();
    split.pop_back();
    return;
  }
  const auto others = static_cast<std::int64_t>(devices - split.size() - 1);
  for (std::int64_t n = 1; n <= layers - others; ++n) {
    split.push_back(n);
    all_splits(layers - n, devices, split, visit);
    split.pop_back();
  }
}

double streamed_s(const planner::StreamingDevice& device, std::int64_t n) {
  return static_cast<double>(std::max<std::int64_t>(0, n - device.resident)) * device.load_s;
}

}  // namespace

TEST_CASE("planner/streamed layers: the least of all splits, of 2,000 random devices") {
  int found = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    Draw draw(seed);
    std::vector<planner::StreamingDevice> devices;
    for (int d = draw.in(1, 4); d > 0; --d) {
      const int resident = draw.in(0, 4);
      const bool disk = draw.in(0, 4) > 0;
      devices.push_back({.layer_s = draw.scale(0.1, 10.0),
                         .load_s = disk ? draw.scale(0.1, 10.0) : 0.0,
                         .resident = resident,
                         .most = disk ? resident + draw.in(0, 8) : resident});
    }
    const std::int64_t rounds = draw.in(1, 2);
    const std::int64_t layers = rounds * draw.in(1, 6);
    double least_sum = 1e9;
    double least_overlap = 1e9;
    std::vector<std::int64_t> split;
    if (layers < static_cast<std::int64_t>(devices.size())) continue;
    all_splits(layers, devices.size(), split, [&] {
      double computing = 0.0;
      double loading = 0.0;
      double longest = 0.0;
      bool fits = true;
      bool whole = true;
      for (std::size_t d = 0; d < devices.size(); ++d) {
        fits = fits && split[d] <= devices[d].most;
        whole = whole && split[d] % rounds == 0;
        computing += static_cast<double>(split[d]) * devices[d].layer_s;
        loading += streamed_s(devices[d], split[d]);
        longest = std::max(longest, streamed_s(devices[d], split[d]));
      }
      if (!fits) return;
      least_overlap = std::min(least_overlap, std::max(computing, longest));
      if (whole) least_sum = std::min(least_sum, computing + loading);
    });
    const auto check = [&](const std::optional<std::vector<std::int64_t>>& given, bool overlaps,
                           double least) {
      REQUIRE(given.has_value() == (least < 1e9));
      if (!given) return;
      ++found;
      CHECK(std::accumulate(given->begin(), given->end(), std::int64_t{0}) == layers);
      double computing = 0.0;
      double loading = 0.0;
      double longest = 0.0;
      for (std::size_t d = 0; d < devices.size(); ++d) {
        CHECK((*given)[d] <= devices[d].most);
        computing += static_cast<double>((*given)[d]) * devices[d].layer_s;
        loading += streamed_s(devices[d], (*given)[d]);
        longest = std::max(longest, streamed_s(devices[d], (*given)[d]));
      }
      CHECK((overlaps ? std::max(computing, longest) : computing + loading) ==
            doctest::Approx(least).epsilon(1e-9));
    };
    check(planner::halda_layers(devices, layers, rounds), false, least_sum);
    check(planner::overlapped_layers(devices, layers), true, least_overlap);
  }
  CHECK(found > 1000);
}

TEST_CASE("planner/groups: texts are names in groups, the master's first") {
  const model::Cluster cluster = star_cluster(std::vector<DeviceSpec>(4));
  CHECK(planner::parse_groups("d3,d1/d2/d0", cluster, 2) == planner::Groups{{2}, {1, 3}, {0}});
  CHECK_THROWS_WITH_AS((void)planner::parse_groups("d0,d1/d2", cluster, 0),
                       doctest::Contains("'d3' is in none"), Error);
  CHECK_THROWS_WITH_AS((void)planner::parse_groups("d0,d1/d2,d3,d1", cluster, 0),
                       doctest::Contains("'d1' is there twice"), Error);
  CHECK_THROWS_AS((void)planner::parse_groups("d0,x/d2,d3,d1", cluster, 0), Error);
}

TEST_CASE("planner/groups: stages of groups give the unsharded model's logits") {
  for (const std::string groups :
       {"d0,d1/d2,d3", "d0,d1,d2/d3", "d1/d0,d2/d3,d4", "d0,d3/d1,d4/d2,d5", "d0,d1,d2,d3,d4,d5"}) {
    for (const std::string allreduce : {"star", "ring", "tree,halving", "hierarchical"}) {
      for (const std::int32_t window : {0, 2}) {
        for (const std::string partition : {"equal", "auto"}) {
          CAPTURE(groups);
          CAPTURE(allreduce);
          CAPTURE(window);
          const auto count = static_cast<std::size_t>(std::ranges::count(groups, 'd'));
          Request request = request_for(count, 7, partition);
          request.groups = groups;
          request.allreduce = allreduce;
          request.window.blocks = window;
          const Plan plan = made(request);
          CHECK(planner::has_groups(plan));
          check_generation(plan);
          CHECK(planner::parse_plan_json(planner::to_json(plan), "plan") == plan);
        }
      }
    }
  }
}

TEST_CASE("planner/groups: prompts by rows give the unsharded model's logits, tile by tile") {
  for (const std::string groups :
       {"d0,d1", "d0,d1/d2,d3", "d0,d1,d2/d3", "d1/d0,d2/d3,d4", "d0,d3/d1,d4/d2,d5"}) {
    for (const std::string allreduce : {"ring,star", "star", "halving,ring", "hierarchical"}) {
      for (const std::int32_t tiles : {0, 1, 3}) {
        if (tiles == 3 && allreduce != "ring,star") continue;
        CAPTURE(groups);
        CAPTURE(allreduce);
        CAPTURE(tiles);
        const auto count = static_cast<std::size_t>(std::ranges::count(groups, 'd'));
        Request request = request_for(count, 5, tiles == 1 ? "auto" : "equal");
        request.groups = groups;
        request.group_strategy = "galaxy";
        request.allreduce = allreduce;
        request.tiles = tiles;
        request.master = tiles == 0 ? "d1" : "d0";
        const Plan plan = made(request);
        CHECK(plan.group_strategy == "galaxy");
        CHECK(plan.tiles == tiles);
        check_batches(plan, true);
        for (const model::Batch& batch :
             {planner::prompt_batch({5, 1}), planner::prompt_batch({2, 1}),
              planner::scored_batch(4, 3),
              model::Batch{{{.sequence = 2, .rows = 3}, {.sequence = 0, .past = 4}}}}) {
          const model::TaskGraph graph = planner::find_strategy("pipeline").lower(plan, batch);
          CHECK(model::find_conflict(graph).value_or("") == "");
          CHECK(model::undeclared(graph).empty());
        }
        CHECK(planner::parse_plan_json(planner::to_json(plan), "plan") == plan);
      }
    }
  }
}

TEST_CASE("planner/groups: rows of a prompt make it faster, new tokens take as long as before") {
  Request request = request_for(4, 6, "equal");
  request.cluster = star_cluster(std::vector<DeviceSpec>(4, {.flops_per_s = 1e6}));
  request.groups = "d0,d1/d2,d3";
  request.workload = {.prompt_tokens = 24, .new_tokens = 3};
  request.allreduce = "ring,star";
  const Plan tensor = made(request);
  request.group_strategy = "galaxy";
  const Plan galaxy = made(request);  // tiles by time
  CHECK(planner::predicted_request_time(galaxy) < planner::predicted_request_time(tensor));
  const auto decoding = [](const Plan& plan) {
    return planner::find_strategy("pipeline").lower(plan, planner::decode_batch(5));
  };
  CHECK(decoding(galaxy).tasks().size() == decoding(tensor).tasks().size());
  CHECK(planner::to_json(tensor).find("group_strategy") == std::string::npos);
}

TEST_CASE("planner/groups: a strategy of groups that cannot be is refused with the reason") {
  Request request = request_for(4, 8, "equal");
  request.group_strategy = "galaxy";
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("--groups"), Error);
  request.groups = "d0/d1/d2/d3";
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("one device each"),
                       Error);
  request.groups = "d0,d1/d2,d3";
  request.group_strategy = "sp";
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("'sp': unknown"),
                       Error);
  request.group_strategy.clear();
  request.tiles = 1;
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("has none"), Error);
  request.tiles.reset();
  Plan plan = made(request);
  plan.tiles = 1;
  CHECK_THROWS_WITH_AS(plan.validate(), doctest::Contains("tiles 1"), Error);
  plan.tiles = 0;
  plan.group_strategy = "rows";
  CHECK_THROWS_WITH_AS(plan.validate(), doctest::Contains("group strategy 'rows'"), Error);
  Plan alone = made(request_for(3, 6, "equal"));
  alone.group_strategy = "galaxy";
  CHECK_THROWS_WITH_AS(alone.validate(), doctest::Contains("no stage is of several"), Error);
}

TEST_CASE("planner/groups: a device too slow for a column by its rate takes one, or a head") {
  Request request = request_for(4, 12, "auto");
  request.cluster = star_cluster({{1e8}, {1e8}, {1e8}, {1e6}});
  request.groups = "d0,d1/d2,d3";
  const Plan plan = made(request);
  CHECK(plan.devices[3].share.heads.empty());
  CHECK(plan.devices[3].share.columns.size() == 1);
  CHECK(plan.devices[2].share.columns.size() == 6);
  request.model.intermediate = 1;
  const Plan few = made(request);
  CHECK(few.devices[3].share.heads.size() == 1);
  CHECK(few.devices[3].share.columns.empty());
  CHECK(few.devices[2].share.heads.size() == 5);
}

TEST_CASE("planner/groups: what they cannot be with is refused") {
  Request request = request_for(4, 8, "auto");
  request.groups = "d0,d1/d2,d3";
  request.rounds = 2;
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("one round"), Error);
  request.rounds = 1;
  request.partition = "exact";
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("auto or equal"),
                       Error);
  request.strategy = "tensor";
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("no stages"), Error);
  // Of devices with the same layers all heads must be there.
  request = request_for(4, 8, "equal");
  request.groups = "d0,d1/d2,d3";
  Plan plan = made(request);
  plan.devices[3].share.heads.end -= 1;
  CHECK_THROWS_WITH_AS(plan.validate(), doctest::Contains("heads of all devices end at"), Error);
}

TEST_CASE(
    "planner/groups: rates are between those of the law by groups' steps and by what lanes do") {
  int bound_by_round = 0;
  int exact = 0;
  int highest = 0;  // as high as lanes allow
  for (unsigned seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Draw draw(seed);
    const int count = draw.in(2, 6);
    std::vector<DeviceSpec> specs;
    std::string groups;
    for (int d = 0; d < count; ++d) {
      specs.push_back({.flops_per_s = draw.scale(1e6, 1e8)});
      groups += (d == 0 ? "" : draw.in(0, 1) == 0 ? "/" : ",");
      groups += "d" + std::to_string(d);
    }
    Request request = request_for(static_cast<std::size_t>(count), 6, "auto");
    request.cluster = star_cluster(specs);
    request.groups = groups;
    request.allreduce = draw.in(0, 1) == 0 ? "star" : "ring";
    request.capacity = {.rows = 5, .positions = 4096, .sequences = 16, .steps = 16};
    const Plan plan = made(request);
    const model::Ring ring = planner::ring_of(plan, kRingPast);
    const int samples = random_samples(draw, ring, 12);
    CAPTURE(groups);
    CAPTURE(samples);
    const double law = model::token_period(ring, samples);
    // The analytic evaluator's messages share nothing: a link's load is no bound there.
    model::Ring lanes = planner::lane_ring(plan, kRingPast);
    if (lanes.other.name.starts_with("link ")) lanes.other = {};
    const double least = model::token_period(lanes, samples);
    bound_by_round += law > model::ring_bottleneck(ring).seconds ? 1 : 0;
    double found = 0.0;
    for (int rounds = 12; rounds <= 12 * 8; rounds *= 8) {
      RoundAndRound scheduler(samples, kRingPast, rounds * samples);
      model::RunRecorder recorder(plan.cluster, plan.master, false);
      planner::GraphCache graphs(plan);
      model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
      found = steady_period(token_ends(recorder), samples);
      if (std::abs(found - law) <= 1e-9 * law) break;
    }
    CHECK(found > 0.0);
    exact += std::abs(found - law) <= 1e-9 * law ? 1 : 0;
    CHECK(found <= law * (1.0 + 1e-9));
    CHECK(found >= least * (1.0 - 1e-9));
    highest += found <= least * (1.0 + 1e-9) ? 1 : 0;
  }
  CHECK(exact > 20);  // to 1e-9; else devices of a group go on with the next step meanwhile
  CHECK(bound_by_round > 2);
  CHECK(highest > 5);
}

}  // namespace tandem::test::stages_test
