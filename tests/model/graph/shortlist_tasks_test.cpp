// Shortlists of logits: what they use, take and send.

#include <doctest/doctest.h>

#include <stdexcept>

#include "model/graph/accesses.hpp"
#include "model/graph/candidates.hpp"
#include "model/graph/conflicts.hpp"
#include "model/graph/work.hpp"
#include "model/predict/cost_model.hpp"

namespace tandem::model::shortlist_tasks_test {
namespace {

constexpr BufferRef kLogits{BufferKind::logits};
constexpr BufferRef kCandidates{BufferKind::candidates};

Transformer small() {
  Transformer t;
  t.name = "small";
  t.layers = 2;
  t.hidden = 24;
  t.heads = 4;
  t.kv_heads = 2;
  t.head_dim = 6;
  t.intermediate = 40;
  t.vocab = 50;
  t.max_context = 2000;
  return t;
}

// Of 30 logits, 3 candidates.
Task shortlist(DeviceIndex device, Range chosen) {
  Task task;
  task.kind = TaskKind::shortlist;
  task.device = device;
  task.rows = {0, 1};
  task.columns = {20, 50};
  task.chosen = chosen;
  task.input = kLogits;
  task.output = kCandidates;
  return task;
}

Task sent(Range columns) {
  Task task;
  task.kind = TaskKind::transfer;
  task.lane = LaneKind::channel;
  task.device = 1;
  task.peer = 0;
  task.rows = {0, 1};
  task.columns = columns;
  task.input = task.output = kCandidates;
  return task;
}

Task sample() {
  Task task;
  task.kind = TaskKind::sample;
  task.rows = {0, 1};
  task.columns = {0, 14};
  task.chosen = {0, 7};
  task.input = kCandidates;
  return task;
}

const Batch kToken{{{.past = 5, .rows = 1}}};

TEST_CASE("model/shortlist: reads logits once, writes a denominator, logits and ids") {
  CHECK(candidate_columns(3) == 7);
  CHECK(candidates_in(7) == 3);
  const Work w = work_of(small(), kToken, shortlist(1, {7, 14}));
  SUBCASE("30 logits and 7 numbers of 4 bytes") {
    CHECK(w.streamed_bytes == 4.0 * 37);
    CHECK(w.bytes_written == 4.0 * 7);
  }
  SUBCASE("sampling from 14 numbers reads them, and writes an id") {
    CHECK(work_of(small(), kToken, sample()).streamed_bytes == 4.0 * 15);
  }
  SUBCASE("a message of 7 numbers") { CHECK(payload_bytes(sent({7, 14})) == 28); }
}

TEST_CASE(
    "model/shortlist: takes the time of sampling from as many bytes, and no rate of a profile") {
  const DeviceProfile profile = nominal_profile(
      {.name = "one", .flop_rate = FlopsPerSecond{1e9}, .memory_bandwidth = BytesPerSecond{1e8}});
  CHECK(profile.rate[static_cast<std::size_t>(TaskKind::shortlist)].points.empty());
  const CostModel costs(small(), {profile});
  const Task task = shortlist(0, {0, 7});
  CHECK(costs.compute_time(kToken, task) ==
        costs.compute_time(0, TaskKind::sample, work_of(small(), kToken, task)));
  CHECK(parse_profile_json(to_json(profile), "profile.json") == profile);
}

TEST_CASE("model/shortlist: sampling waits for everybody's candidates, and for these alone") {
  const auto graph_of = [](bool waits) {
    TaskGraph graph(kToken);
    for (const DeviceIndex d : {0, 1}) {
      const bool master = d == 0;
      graph.declare(d, {.name = kLogits, .columns = 30, .first = 20});
      graph.declare(d, {.name = kCandidates, .columns = master ? 14 : 7, .first = master ? 0 : 7});
    }
    graph.add(shortlist(0, {0, 7}), {});
    const TaskIndex other = graph.add(shortlist(1, {7, 14}), {});
    const TaskIndex message =
        waits ? graph.add(sent({7, 14}), {other}) : graph.add(sent({7, 14}), {});
    graph.add(sample(), {message});
    return graph;
  };
  CHECK(find_conflict(graph_of(true)) == std::nullopt);
  CHECK(undeclared(graph_of(true)).empty());
  CHECK(find_conflict(graph_of(false)).value_or("").find("candidates") != std::string::npos);
  CHECK(area_of(shortlist(1, {7, 14}), BufferKind::logits) == Area{kEverything, {20, 50}});
  CHECK(area_of(shortlist(1, {7, 14}), BufferKind::candidates) == Area{kEverything, {7, 14}});
}

TEST_CASE("model/shortlist: a task that is none is refused") {
  TaskGraph graph(kToken);
  CHECK_THROWS_AS(graph.add(shortlist(0, {}), {}), std::logic_error);
  Task other = shortlist(0, {0, 7});
  other.input = {BufferKind::hidden};
  CHECK_THROWS_AS(graph.add(other, {}), std::logic_error);
  other = sample();
  other.chosen = {};
  CHECK_THROWS_AS(graph.add(other, {}), std::logic_error);
  other = sample();
  other.input = kLogits;
  CHECK_THROWS_AS(graph.add(other, {}), std::logic_error);
  other = sent({7, 14});
  other.wire = WireFormat::f16;
  CHECK_THROWS_AS(graph.add(other, {}), std::logic_error);
}

}  // namespace
}  // namespace tandem::model::shortlist_tasks_test
