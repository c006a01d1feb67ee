// What a plan reserves against what any of its steps needs: random plans, capacities and batches.

#include "planner/memory/plan_storage.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "model/predict/analytic.hpp"
#include "planner/memory/session_memory.hpp"
#include "planner/search/request_checks.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::plan_storage_test {
namespace {

using planner::Capacity;
using planner::Plan;

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(number(0, std::ssize(list) - 1))];
  }

  Capacity capacity(bool stages) {
    const std::int64_t sequences = number(1, 9);
    return {.rows = sequences + number(0, 40),
            .positions = model::kCacheBlock * number(sequences, 3 * sequences),
            .sequences = sequences,
            .steps = stages ? number(1, std::min<std::int64_t>(sequences, 4)) : 1};
  }

  // A step of some of the sequences, within `capacity`: prompts, chunks of them and tokens.
  model::Batch batch(const Capacity& capacity) {
    const std::int64_t most = std::min(capacity.sequences, capacity.rows);
    const auto sequences = static_cast<std::int32_t>(number(1, most));
    std::int64_t spare = capacity.rows - sequences;
    model::Batch batch;
    for (std::int32_t i = 0; i < sequences; ++i) {
      const std::int64_t more = number(0, 2) == 0 ? number(0, spare) : 0;
      spare -= more;
      batch.segments.push_back({.sequence = i,
                                .past = static_cast<std::int32_t>(number(0, 30)),
                                .rows = static_cast<std::int32_t>(1 + more),
                                .sampled = static_cast<std::int32_t>(number(0, 3) > 0)});
    }
    return batch;
  }

 private:
  std::mt19937 random_;
};

Plan random_plan(Draw& draw) {
  const std::string strategy = draw.of<std::string>(
      {"tensor", "tensor", "pipeline", "local", "galaxy", "galaxy", "sp", "csps", "csps"});
  const int devices = strategy == "local" ? 1 : static_cast<int>(draw.number(2, 6));
  planner::Request request{
      .model = small_model({.layers = 6, .heads = 8, .kv_heads = 4, .intermediate = 24}),
      .cluster = star_cluster(std::vector<DeviceSpec>(static_cast<std::size_t>(devices))),
      .strategy = strategy,
      .partition = "equal",
      .workload = {.prompt_tokens = draw.number(1, 12), .new_tokens = draw.number(1, 9)}};
  const planner::Strategy& known = planner::find_strategy(strategy);
  // Rows in proportion to columns: a short step leaves devices without any.
  if (strategy == "csps" && devices <= 4 && draw.number(0, 1) == 0) {
    request.partition = std::to_string(draw.number(2, 4));
    for (int d = 1; d < devices; ++d) request.partition += ":" + std::to_string(draw.number(2, 4));
  }
  if (known.sharding.has_collective()) {
    const std::vector<std::string> sums{"star", "tree", "ring", "halving", "hierarchical"};
    request.allreduce = draw.of(sums) + "," + draw.of(sums);
  }
  request.capacity = draw.capacity(strategy == "pipeline");
  if (known.sharding.joins_prompts_only()) request.capacity.sequences = request.capacity.steps = 1;
  if (known.sharding.exchanges_rows()) request.tiles = static_cast<std::int32_t>(draw.number(0, 4));
  if (known.sharding.may_stream() && strategy != "pipeline" && draw.number(0, 3) == 0)
    request.window = {.blocks = 2, .retain = std::nullopt};
  if (draw.number(0, 2) == 0 && planner::head_obstacle(request).empty())
    request.head = planner::HeadPlacement::split;
  auto answer = planner::make_plan(request);
  if (const auto* no = std::get_if<planner::Infeasible>(&answer)) throw Error(no->reason);
  return std::get<Plan>(std::move(answer));
}

// Whether `reserved` has all that `needed` declares: the same buffers, and room in each channel but
// where a runtime adds to it.
void check_within(const model::DeviceStorage& needed, const model::DeviceStorage& reserved,
                  bool adds) {
  for (const model::BufferDeclaration& buffer : needed.buffers) {
    const model::BufferDeclaration* const has = model::find_buffer(reserved.buffers, buffer.name);
    REQUIRE(has != nullptr);
    CHECK(*has == buffer);
  }
  for (const model::ChannelRoom& room : needed.channels) {
    const auto has = std::ranges::find_if(reserved.channels, [&](const model::ChannelRoom& other) {
      return other.peer == room.peer && other.outgoing == room.outgoing;
    });
    REQUIRE(has != reserved.channels.end());
    if (!adds) CHECK(room.bytes <= has->bytes);
  }
}

model::Extents extents_of_batch(const model::Batch& batch) {
  model::Extents extents{.rows = batch.rows()};
  for (const model::Segment& segment : batch.segments) {
    extents.positions += planner::reserved_positions(segment.past + segment.rows);
    extents.sequences += segment.sampled > 0 ? 1 : 0;
    extents.sampled += segment.sampled;
  }
  return extents;
}

TEST_CASE("planner/storage: no step within the capacity needs more than the plan reserves") {
  Draw draw(11);
  for (int round = 0; round < 250; ++round) {
    CAPTURE(round);
    const Plan plan = random_plan(draw);
    CAPTURE(plan.strategy);
    CAPTURE(plan.allreduce.prompt);
    CAPTURE(plan.allreduce.decode);
    const Capacity capacity = plan.reserved();
    const model::Extents extents = planner::serving_extents(capacity);
    const std::vector<model::DeviceStorage> reserved = planner::storage_of(plan, extents);
    const std::vector<model::MemoryUse> memory = planner::predicted_memory(plan, extents);
    const bool parts = planner::sharding_of(plan).splits_rows();
    const std::vector<double> records = planner::most_records(plan, capacity, 1);
    for (int steps = 0; steps < 4; ++steps) {
      // As many steps as may be in flight, each of sequences of its own.
      std::vector<model::MemoryUse> together(reserved.size());
      Capacity share = capacity;
      share.sequences = planner::in_a_step(capacity);
      for (std::int64_t step = 0; step < extents.steps; ++step) {
        model::Batch batch = draw.batch(share);
        batch.segments.back().sampled = 1;  // as a streamed head demands
        const model::TaskGraph graph = planner::find_strategy(plan.strategy).lower(plan, batch);
        const std::vector<model::DeviceStorage> needed = model::storage_of(graph, reserved.size());
        const std::vector<double> recorded = model::record_bytes(graph, reserved.size());
        for (std::size_t d = 0; d < reserved.size(); ++d) {
          check_within(needed[d], reserved[d], parts);
          CHECK(recorded[d] <= 1.02 * records[d]);
          const model::MemoryUse use = model::memory_use(needed[d], extents_of_batch(batch));
          CHECK(use.activations <= memory[d].activations);
          together[d].buffers += use.buffers;
        }
      }
      for (std::size_t d = 0; d < reserved.size(); ++d) {
        // Each step in flight has slots of its own; receive buffers are one step's at a time.
        double receive = 0.0;
        for (const model::BufferDeclaration& buffer : reserved[d].buffers) {
          if (buffer.name.kind == model::BufferKind::receive)
            receive += static_cast<double>(buffer.bytes(extents));
        }
        CHECK(together[d].buffers <=
              memory[d].buffers + static_cast<double>(extents.steps - 1) * receive);
      }
    }
  }
}

// Its last chunk may have too few rows for all devices: it is computed as tensor does, whose sums
// take more room than the parts of a few rows more.
TEST_CASE("planner/storage: csps reserves for chunks too short for all devices") {
  planner::Request request{
      .model = small_model({.layers = 2, .heads = 8, .kv_heads = 4, .intermediate = 24}),
      .cluster = star_cluster(std::vector<DeviceSpec>(4)),
      .strategy = "csps",
      .partition = "5:1:1:1",
      .workload = {.prompt_tokens = 9, .new_tokens = 2}};
  request.capacity = {.rows = 9, .positions = model::kCacheBlock, .sequences = 1, .steps = 1};
  const auto answer = planner::make_plan(request);
  REQUIRE(std::holds_alternative<Plan>(answer));
  const Plan& plan = std::get<Plan>(answer);
  const std::vector<model::MemoryUse> memory =
      planner::predicted_memory(plan, planner::serving_extents(plan.reserved()));
  for (std::int32_t rows = 2; rows <= 9; ++rows) {
    CAPTURE(rows);
    const model::Batch batch{{{.rows = rows, .sampled = 1}}};
    const std::vector<model::DeviceStorage> needed =
        model::storage_of(planner::find_strategy("csps").lower(plan, batch), plan.devices.size());
    for (std::size_t d = 0; d < needed.size(); ++d)
      CHECK(model::memory_use(needed[d], extents_of_batch(batch)).buffers <= memory[d].buffers);
  }
}

TEST_CASE("planner/storage: a plan's memory is that of its own graphs, and no other is believed") {
  Draw draw(5);
  for (int round = 0; round < 20; ++round) {
    Plan plan = random_plan(draw);
    const std::vector<model::MemoryUse> memory = planner::predicted_memory(plan);
    for (std::size_t d = 0; d < memory.size(); ++d) CHECK(plan.devices[d].memory == memory[d]);
    for (planner::DevicePlan& device : plan.devices) device.memory = {};
    CHECK(planner::predicted_memory(plan) == memory);
  }
}

TEST_CASE("planner/storage: sessions count where a program does") {
  Draw draw(3);
  for (int round = 0; round < 40; ++round) {
    Plan plan = random_plan(draw);
    const std::vector<model::MemoryUse> paper = planner::predicted_memory(plan);
    for (model::DeviceProfile& profile : plan.profiles) profile.program_bytes = 1e6;
    const std::vector<model::MemoryUse> real = planner::predicted_memory(plan);
    for (std::size_t d = 0; d < paper.size(); ++d) {
      CHECK(paper[d].program == 0.0);
      CHECK(real[d].program > 1e6);
      CHECK(real[d].weights >= paper[d].weights);
      CHECK(real[d].weights <=
            paper[d].weights + 4096.0 * static_cast<double>(2 * plan.model.layers + 2));
      CHECK(real[d].activations == paper[d].activations);
      CHECK(real[d].buffers == paper[d].buffers);
      CHECK(real[d].kv_cache == paper[d].kv_cache);
    }
  }
}

TEST_CASE(
    "planner/storage: a session keeps a prompt's graph, a token's, and others of their size") {
  Draw draw(6);
  for (int i = 0; i < 10; ++i) {
    CAPTURE(i);
    const Plan plan = random_plan(draw);
    const planner::Strategy& strategy = planner::find_strategy(plan.strategy);
    const std::vector<model::DeviceStorage> storage(plan.devices.size());
    const auto loads = [&](const std::vector<model::TaskGraph>& graphs, std::int64_t kept) {
      return planner::session_loads(plan, graphs, storage, {.rows = 9, .graphs = kept});
    };
    const model::TaskGraph prompt = strategy.lower(plan, {{{.rows = 9}}});
    const model::TaskGraph token = strategy.lower(plan, {{{.rows = 1}}});
    const auto both = loads({prompt, token}, 2);
    const auto more = loads({prompt, token}, 5);
    const auto of_prompt = loads({prompt}, 1);
    const auto of_token = loads({token}, 1);
    for (std::size_t d = 0; d < both.size(); ++d) {
      const double first = of_prompt[d].graph_bytes;
      const double second = of_token[d].graph_bytes;
      CHECK(both[d].graph_bytes == first + second);
      CHECK(more[d].graph_bytes == first + second + 3.0 * std::max(first, second));
    }
  }
}

TEST_CASE("planner/storage: what a session takes, by arithmetic") {
  using planner::session_bytes;
  constexpr double kKiB = 1024.0;
  CHECK(session_bytes({}) == 0.0);
  CHECK(session_bytes({.graph_bytes = 5000.0}) == 5000.0);
  const double worker = session_bytes({.peers = 1, .sends = 1, .receives = 1});
  SUBCASE("one more channel that receives: a connection, and a lane for each step in flight") {
    CHECK(session_bytes({.peers = 1, .sends = 1, .receives = 2}) - worker == (108.0 + 20.0) * kKiB);
    CHECK(session_bytes({.peers = 1, .sends = 1, .receives = 2, .steps = 3}) -
              session_bytes({.peers = 1, .sends = 1, .receives = 1, .steps = 3}) ==
          (108.0 + 3 * 20.0) * kKiB);
  }
  SUBCASE("one that sends also stages the first bytes of a message") {
    CHECK(session_bytes({.peers = 1, .sends = 2, .receives = 1}) - worker ==
          (108.0 + 16.0 + 20.0) * kKiB);
  }
  SUBCASE("products of more than 8 rows pack their inputs") {
    CHECK(session_bytes({.rows = 8}) == 0.0);
    CHECK(session_bytes({.rows = 9}) == 36.0 * kKiB);
    CHECK(session_bytes({.rows = 513}) == 512.0 * kKiB);
  }
}

TEST_CASE(
    "planner/storage: a schedule keeps within a capacity, or one error says where it does not") {
  const auto step = [](std::vector<model::Segment> segments, std::int32_t ended) {
    return model::ScheduledStep{.batch = {.segments = std::move(segments)}, .ended = ended};
  };
  // Two prompts, a token of each together, then one of the second alone.
  const std::vector<model::ScheduledStep> schedule{
      step({{.sequence = 0, .past = 0, .rows = 60}}, 0),
      step({{.sequence = 1, .past = 0, .rows = 20}}, 1),
      step({{.sequence = 0, .past = 60}, {.sequence = 1, .past = 20}}, 2),
      step({{.sequence = 1, .past = 21, .rows = 50}}, 3)};
  const Capacity enough{.rows = 60, .positions = 128, .sequences = 2, .steps = 1};
  CHECK_NOTHROW(planner::check_schedule(schedule, enough, "m.json"));
  const auto fails = [&](Capacity capacity, const char* says) {
    CHECK_THROWS_WITH_AS(planner::check_schedule(schedule, capacity, "m.json"),
                         doctest::Contains(says), Error);
  };
  Capacity less = enough;
  less.rows = 59;
  fails(less, "m.json: field 'schedule[0]' has 60 rows, expected at most 59");
  less = enough;
  less.sequences = 1;
  fails(less, "'schedule[2]' has 2 sequences, expected at most 1");
  less = enough;
  less.positions = 64;
  fails(less, "'schedule[1]' has 128 positions in the cache, expected at most 64");
  std::vector<model::ScheduledStep> flying = schedule;
  flying[1].ended = 0;
  CHECK_THROWS_WITH_AS(planner::check_schedule(flying, enough, "m.json"),
                       doctest::Contains("'schedule[1]' has 2 steps in flight, expected at most 1"),
                       Error);
}

model::RunRecorder served_by(const Plan& plan, model::Scheduler& scheduler) {
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  planner::GraphCache graphs(plan);
  model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  return recorder;
}

TEST_CASE("planner/storage: what a scheduler makes keeps within its capacity and most_steps") {
  Draw draw(29);
  for (int round = 0; round < 120; ++round) {
    CAPTURE(round);
    const Plan plan = pipeline_of(3);
    std::vector<planner::InferenceRequest> requests;
    double arrival = 0.0;
    for (std::int64_t i = draw.number(1, 9); i > 0; --i) {
      requests.push_back({.id = "r" + std::to_string(i),
                          .arrival_s = arrival,
                          .prompt_tokens = draw.number(1, 70),
                          .new_tokens = draw.number(1, 9)});
      if (draw.number(0, 2) == 0) arrival += 1e-3 * static_cast<double>(draw.number(0, 40));
    }
    const std::int64_t chunk = draw.number(0, 1) * draw.number(1, 20);
    const planner::Policy& policy = draw.of(planner::policies());
    if (!planner::serves(policy, chunk)) continue;
    const Capacity capacity = planner::wanted_capacity(requests, policy, chunk, draw.number(1, 4));
    planner::RequestScheduler scheduler(requests, policy, {.chunk = chunk, .capacity = capacity});
    const model::RunRecorder recorder = served_by(plan, scheduler);
    std::vector<model::ScheduledStep> made;
    for (const model::ServedStep& one : recorder.served()) made.push_back(one.step);
    CHECK_NOTHROW(planner::check_schedule(made, capacity, "made"));
    CHECK(std::ssize(made) <= planner::most_steps(requests, chunk, capacity));
  }
}

}  // namespace
}  // namespace tandem::test::plan_storage_test
