// Sequences placed on devices that cache positions: who has what, and what that costs.

#include "planner/serving/cache_places.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/accesses.hpp"
#include "model/graph/block_table.hpp"
#include "model/graph/conflicts.hpp"
#include "model/predict/analytic.hpp"
#include "model/report/trace.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/positions.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/planner/served_steps.hpp"

namespace tandem::test::cache_places_test {
namespace {

using model::BufferKind;
using model::DeviceIndex;
using model::Range;
using planner::InferenceRequest;
using planner::Plan;

planner::Request request_of(int devices, const std::string& partition = "equal") {
  model::Transformer transformer = small_model({.layers = 2, .heads = 4, .kv_heads = 2});
  transformer.max_context = 4096;
  return {.model = std::move(transformer),
          .cluster = star_cluster(std::vector<DeviceSpec>(static_cast<std::size_t>(devices))),
          .strategy = "spread",
          .partition = partition,
          .workload = {}};
}

std::vector<InferenceRequest> requests_of(
    const std::vector<std::pair<std::int64_t, std::int64_t>>& lengths) {
  std::vector<InferenceRequest> requests;
  for (const auto& [prompt, tokens] : lengths)
    requests.push_back({.id = "r" + std::to_string(requests.size()),
                        .prompt_tokens = prompt,
                        .new_tokens = tokens});
  return requests;
}

Plan planned(const planner::Request& request, const std::vector<InferenceRequest>& requests,
             const char* policy = "continuous", std::int64_t chunk = 0) {
  auto answer = planner::make_serving_plan(request, requests, planner::find_policy(policy), chunk);
  if (const auto* no = std::get_if<planner::Infeasible>(&answer)) FAIL(no->reason);
  return std::get<Plan>(std::move(answer));
}

// Every device's cache through a schedule, by its own table of as many blocks as it declares.
class Caches {
 public:
  explicit Caches(const Plan& plan)
      : plan_(&plan),
        graphs_(plan),
        reserved_(planner::storage_of(plan, planner::serving_extents(plan.reserved()))) {
    for (DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
      const auto buffers =
          planner::find_strategy(plan.strategy)
              .buffers_of(plan, d, plan.devices[static_cast<std::size_t>(d)].share, false);
      tables_.emplace_back(model::find_buffer(buffers, {BufferKind::key_value})->blocks);
    }
  }

  void step(const model::Batch& batch) {
    const model::TaskGraph& graph = graphs_.graph_of(batch);
    CHECK(model::find_conflict(graph).value_or("") == "");
    CHECK(model::undeclared(graph).empty());
    check_channels(graph);
    for (const model::CacheOp& op : batch.cache) owners_.erase(op.sequence);
    for (DeviceIndex d = 0; d < plan_->cluster.size(); ++d) append(graph, d);
    std::map<std::int32_t, std::int32_t> lengths;
    for (const model::Segment& segment : batch.segments)
      lengths[segment.sequence] = segment.past + segment.rows;
    for (const auto& [sequence, length] : lengths) {
      const auto& owners = owners_[sequence];
      CHECK(std::ssize(owners) == length);
      CHECK(std::ranges::none_of(owners, [](const auto& one) { return one.second != 1; }));
    }
  }

 private:
  void append(const model::TaskGraph& graph, DeviceIndex d) {
    model::BlockTable& table = tables_[static_cast<std::size_t>(d)];
    const model::Batch& batch = graph.batch();
    const Range cached = model::cached_rows(graph, d);
    for (const model::CacheOp& op : batch.cache) table.apply(op);
    std::int32_t row = 0;
    for (std::size_t i = 0; i < batch.segments.size(); ++i) {
      const model::Segment& segment = batch.segments[i];
      const Range positions{segment.past, segment.past + segment.rows};
      const bool own = cached.contains({row, row + segment.rows});
      CHECK(own == (batch.places[i].owner == d));
      row += segment.rows;
      if (!own) {
        table.skip(segment.sequence, positions);
        continue;
      }
      REQUIRE(table.append(segment.sequence, positions).empty());
      for (std::int32_t p = positions.begin; p < positions.end; ++p) ++owners_[segment.sequence][p];
    }
  }

  // Every channel is one that the plan reserves, with room for the messages of a step.
  void check_channels(const model::TaskGraph& graph) const {
    const std::vector<model::DeviceStorage> needed =
        model::storage_of(graph, plan_->devices.size());
    for (std::size_t d = 0; d < needed.size(); ++d) {
      for (const model::ChannelRoom& room : needed[d].channels) {
        const auto has =
            std::ranges::find_if(reserved_[d].channels, [&](const model::ChannelRoom& other) {
              return other.peer == room.peer && other.outgoing == room.outgoing;
            });
        REQUIRE(has != reserved_[d].channels.end());
        CHECK(room.bytes <= has->bytes);
      }
    }
  }

  const Plan* plan_;
  planner::GraphCache graphs_;
  std::vector<model::DeviceStorage> reserved_;
  std::vector<model::BlockTable> tables_;
  // By sequence: how many devices have a position.
  std::map<std::int32_t, std::map<std::int32_t, int>> owners_;
};

TEST_CASE(
    "planner/places: one device has a position, within its blocks, of any requests and devices") {
  std::mt19937 random(37);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  int partitioned = 0;
  int whole = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const auto devices = static_cast<int>(draw(1, 4));
    std::string partition;
    for (int d = 0; d < devices; ++d) partition += (d > 0 ? ":" : "") + std::to_string(draw(1, 5));
    std::vector<std::pair<std::int64_t, std::int64_t>> lengths;
    const std::int64_t count = draw(2, 7);
    for (std::int64_t r = 0; r < count; ++r)
      lengths.emplace_back(r % 3 == 0 ? draw(200, 900) : draw(1, 120), draw(1, 6));
    const std::vector<InferenceRequest> requests = requests_of(lengths);
    const std::int64_t chunk = draw(0, 1) * draw(20, 200);
    for (const planner::Policy& policy : planner::policies()) {
      if (!planner::serves(policy, chunk)) continue;
      CAPTURE(trial);
      CAPTURE(policy.name);
      const Plan plan = planned(request_of(devices, partition), requests,
                                std::string(policy.name).c_str(), chunk);
      CHECK(planner::parse_plan_json(planner::to_json(plan), "plan") == plan);
      const std::vector<model::ServedStep> steps = served_steps(plan, requests, policy, chunk);
      Caches caches(plan);
      std::vector<std::int64_t> sampled(requests.size());
      std::vector<model::ScheduledStep> schedule;
      for (const model::ServedStep& step : steps) {
        caches.step(step.step.batch);
        schedule.push_back(step.step);
        for (const model::Segment& segment : step.step.batch.segments)
          sampled[static_cast<std::size_t>(segment.sequence)] += segment.sampled;
        for (const model::Place& place : step.step.batch.places)
          ++(place.partitioned > 0 ? partitioned : whole);
        CHECK(step.step.batch.sequences() <= plan.capacity.sequences);
      }
      for (std::size_t r = 0; r < requests.size(); ++r) CHECK(sampled[r] == requests[r].new_tokens);
      CHECK_NOTHROW(planner::check_schedule(schedule, plan.reserved(), "a run"));
      CHECK(planner::replayed_steps(schedule, requests, plan.model, "a run").size() ==
            schedule.size());
    }
  }
  CHECK(partitioned > 100);
  CHECK(whole > 100);
}

TEST_CASE(
    "planner/places: a long sequence is partitioned, short ones lie where there is most room") {
  const Plan plan = planned(request_of(4), requests_of({{1280, 1}, {60, 5}, {60, 5}, {60, 5}}));
  planner::CachePlaces places(plan);
  // Of 23 blocks each device has a quarter, and 6 of a mean request.
  for (DeviceIndex d = 0; d < 4; ++d) CHECK(places.blocks(d) == 6 + 6);
  REQUIRE(places.take(0, 1280));
  for (DeviceIndex d = 0; d < 4; ++d) CHECK(places.reserved(d) == 5);
  for (std::int32_t sequence = 1; sequence <= 4; ++sequence) REQUIRE(places.take(sequence, 64));
  for (DeviceIndex d = 0; d < 4; ++d) CHECK(places.reserved(d) == 6);
  places.release(2);
  model::Batch batch{.segments = {{.sequence = 3, .past = 63},
                                  {.sequence = 0, .past = 300, .rows = 980},
                                  {.sequence = 1, .past = 63}}};
  places.place(batch);
  REQUIRE(batch.segments.size() == 6);
  // In the order of positions, the master's last.
  std::vector<DeviceIndex> owners;
  for (const model::Place& place : batch.places) owners.push_back(place.owner);
  CHECK(std::ranges::is_sorted(owners, {}, [](DeviceIndex d) { return (d + 3) % 4; }));
  CHECK(batch.rows() == 982);
  CHECK(batch.sequences() == 3);
  std::int32_t next = 300;
  std::int32_t sampled = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    const model::Segment& segment = batch.segments[i];
    if (segment.sequence != 0) {
      CHECK(batch.places[i].partitioned == 0);
      continue;
    }
    CHECK(batch.places[i].partitioned == 1280);
    CHECK(segment.past == next);
    next += segment.rows;
    sampled += segment.sampled;
  }
  CHECK(next == 1280);
  CHECK(sampled == 1);
  CHECK_FALSE(places.take(9, 3000));
  CHECK_FALSE(places.fits_alone(5000));
  CHECK(places.fits_alone(23 * 64));
}

TEST_CASE("planner/places: a cache that no device could hold is served, and memory is exact") {
  const auto requests = requests_of({{2000, 8}, {50, 8}, {50, 8}, {50, 8}});
  const Plan plan = planned(request_of(4), requests);
  const std::int64_t longest = model::cache_blocks(2007);
  for (const planner::DevicePlan& device : plan.devices) {
    CHECK(planner::served_blocks(plan, device.share.part.positions) < longest);
    CHECK(device.memory.kv_cache ==
          static_cast<double>(planner::served_blocks(plan, device.share.part.positions) *
                              model::cache_block_bytes(plan.model, device.share)));
  }
}

bool same_tasks(const model::TaskGraph& a, const model::TaskGraph& b) {
  if (a.size() != b.size()) return false;
  for (model::TaskIndex i = 0; i < a.size(); ++i) {
    const model::Task& x = a.tasks()[static_cast<std::size_t>(i)];
    const model::Task& y = b.tasks()[static_cast<std::size_t>(i)];
    if (x.kind != y.kind || x.device != y.device || x.peer != y.peer || x.layer != y.layer ||
        x.rows != y.rows || x.columns != y.columns || x.keys != y.keys ||
        x.statistics != y.statistics || x.input != y.input || x.output != y.output ||
        !std::ranges::equal(a.dependencies(i), b.dependencies(i)))
      return false;
  }
  return true;
}

TEST_CASE("planner/places: a batch of one partitioned sequence has the tasks of one request") {
  for (const int devices : {2, 3, 4}) {
    const auto requests = requests_of({{500, 12}, {500, 12}});
    const Plan plan = planned(request_of(devices), requests);
    const planner::Strategy& strategy = planner::find_strategy("spread");
    const std::vector<planner::PositionPart> parts = planner::sequence_parts(plan, 511);
    const DeviceIndex last = parts.back().device;
    CHECK(same_tasks(strategy.lower(plan, planner::decode_batch(505)),
                     strategy.lower(plan, {.segments = {{.sequence = 7, .past = 505}},
                                           .cache = {},
                                           .places = {{.owner = last, .partitioned = 511}}})));
    // A plan for one request has the same parts, if they are whole blocks.
    planner::Request one = request_of(devices);
    one.workload = {.prompt_tokens = 128 * devices, .new_tokens = 1};
    const Plan alone = std::get<Plan>(planner::make_plan(one));
    const Plan many = planned(request_of(devices), requests_of({{128 * devices, 1}}));
    CHECK(planner::position_parts(alone) == planner::sequence_parts(many, 128 * devices));
    CHECK(same_tasks(strategy.lower(alone, planner::prompt_batch(one.workload)),
                     strategy.lower(many, planner::prompt_batch(one.workload))));
  }
}

TEST_CASE(
    "planner/places: a token on one device asks nobody, a partitioned one all before its owner") {
  const Plan plan = planned(request_of(3), requests_of({{600, 9}, {40, 9}, {40, 9}, {40, 9}}));
  const planner::Strategy& strategy = planner::find_strategy("spread");
  const std::vector<planner::PositionPart> parts = planner::position_parts(plan);
  const auto token = [](std::int32_t sequence, std::int32_t past) {
    return model::Segment{.sequence = sequence, .past = past};
  };
  const auto& m = plan.model;
  const double layers = static_cast<double>(m.layers);
  const double heads = static_cast<double>(m.heads);
  const double hidden = 4.0 * static_cast<double>(m.hidden);
  const model::TaskGraph graph =
      strategy.lower(plan, {.segments = {token(1, 40), token(2, 40), token(0, 605), token(3, 41)},
                            .cache = {},
                            .places = {{.owner = parts[0].device},
                                       {.owner = parts[1].device},
                                       {.owner = parts[2].device, .partitioned = 608},
                                       {.owner = parts[2].device}}});
  CHECK(model::find_conflict(graph).value_or("") == "");
  const double asked = 2 * layers * heads;
  CHECK(sent(graph, BufferKind::query) == asked * 4.0 * static_cast<double>(m.head_dim));
  CHECK(sent(graph, BufferKind::softmax) == asked * 8.0);
  // To the two owners that are not the master, and back.
  REQUIRE(parts[2].device == plan.master);
  CHECK(sent(graph, BufferKind::hidden) == 2 * 2 * hidden);
  // Each device has one product of all its rows.
  for (const planner::PositionPart& part : parts) {
    const auto products = std::ranges::count_if(graph.tasks(), [&](const model::Task& task) {
      return task.kind == model::TaskKind::project_qkv && task.device == part.device;
    });
    CHECK(products == m.layers);
  }
  const auto refused = [&](std::vector<model::Place> places, const char* why) {
    CHECK_THROWS_WITH_AS((void)strategy.lower(plan, {.segments = {token(1, 40), token(2, 40)},
                                                     .cache = {},
                                                     .places = std::move(places)}),
                         doctest::Contains(why), Error);
  };
  refused({{.owner = parts[1].device}, {.owner = parts[0].device}}, "in the order of");
  refused({{.owner = 0}, {.owner = 9}}, "expected one that keeps positions");
  refused({{.owner = parts[0].device}, {.owner = parts[0].device, .partitioned = 1 << 20}},
          "partitioned positions");
}

TEST_CASE("planner/places: a recorded schedule whose rows are not where caches are is refused") {
  const std::vector<InferenceRequest> requests =
      requests_of({{700, 4}, {20, 5}, {30, 6}, {25, 4}, {20, 4}});
  const Plan plan = planned(request_of(3), requests);
  std::vector<model::ScheduledStep> steps;
  for (const model::ServedStep& step :
       served_steps(plan, requests, planner::find_policy("continuous"), 0))
    steps.push_back(step.step);
  CHECK_NOTHROW(planner::check_places(plan, steps, "r.json"));
  const auto refused = [&](const auto& change, const char* expected) {
    std::vector<model::ScheduledStep> changed = steps;
    change(changed);
    CHECK_THROWS_WITH_AS(planner::check_places(plan, changed, "r.json"),
                         doctest::Contains(expected), Error);
  };
  // Of the last step with rows of the partitioned sequence, and of a whole one, those rows.
  const auto last = [](std::vector<model::ScheduledStep>& of, bool partitioned) {
    for (auto step = of.rbegin(); step != of.rend(); ++step) {
      for (std::size_t i = 0; i < step->batch.places.size(); ++i) {
        if ((step->batch.places[i].partitioned > 0) == partitioned)
          return std::pair{&step->batch, i};
      }
    }
    FAIL("no such rows");
    return std::pair{&of.front().batch, std::size_t{0}};
  };
  for (const bool partitioned : {true, false}) {
    CAPTURE(partitioned);
    refused(
        [&](auto& all) {
          const auto [batch, i] = last(all, partitioned);
          model::Place& place = batch->places[i];
          place.owner = (place.owner + 1) % 3;
        },
        partitioned ? "caches them" : "where its rows before are");
    refused(
        [&](auto& all) {
          const auto [batch, i] = last(all, partitioned);
          batch->places[i].partitioned = partitioned ? 0 : 700;
        },
        "where its rows before are");
  }
  refused(
      [&](auto& all) {
        for (model::ScheduledStep& step : all) {
          for (model::Place& place : step.batch.places) {
            if (place.partitioned > 0) place.partitioned = 64;
          }
        }
      },
      "caches them");
  refused([](auto& all) { all.back().batch.places.clear(); }, "has no device");
}

TEST_CASE("planner/places: what is served with queries alone is refused otherwise, by name") {
  const auto requests = requests_of({{100, 4}, {100, 4}});
  const auto refused = [&](const planner::Request& request, const char* why) {
    CHECK_THROWS_WITH_AS(
        (void)planner::make_serving_plan(request, requests, planner::find_policy("continuous"), 0),
        doctest::Contains(why), Error);
  };
  planner::Request request = request_of(2);
  request.decode_moves = planner::DecodeMoves::keys_each_step;
  refused(request, "give '--decode-moves q'");
  request.decode_moves = planner::DecodeMoves::keys_once;
  refused(request, "give '--decode-moves q'");
  request.decode_moves = planner::DecodeMoves::queries;
  request.token_ffn = planner::TokenFfn::shared;
  refused(request, "give '--decode-ffn owner'");
  request.token_ffn = planner::TokenFfn::automatic;
  CHECK_FALSE(planner::has_column_parts(planned(request, requests)));
  // Places are of such plans alone.
  for (const planner::Strategy& strategy : planner::strategies()) {
    planner::Request other = request_of(2);
    other.strategy = strategy.name;
    // `sp` serves one request at a time.
    const bool alone = strategy.sharding.joins_prompts_only() && strategy.placed == nullptr;
    const Plan plan = planned(other, requests, alone ? "sequential" : "continuous");
    const model::Batch batch{
        .segments = {{.sequence = 0, .past = 4}}, .cache = {}, .places = {{.owner = plan.master}}};
    CAPTURE(strategy.name);
    if (strategy.placed != nullptr) {
      CHECK_NOTHROW((void)strategy.lower(plan, batch));
    } else {
      CHECK_THROWS_WITH_AS((void)strategy.lower(plan, batch), doctest::Contains("expected none"),
                           Error);
    }
  }
}

}  // namespace
}  // namespace tandem::test::cache_places_test
