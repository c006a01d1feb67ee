// Deliveries of messages against their definition, by trying every later task.

#include "model/graph/message_schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "model/graph/accesses.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/model/model_fixtures.hpp"

namespace tandem::test::message_schedule_test {
namespace {

using model::LaneKind;
using model::MessageSchedule;
using model::Task;
using model::TaskGraph;
using model::TaskIndex;

bool uses(const TaskGraph& graph, TaskIndex user, TaskIndex transfer) {
  const Task& brought = graph.tasks()[static_cast<std::size_t>(transfer)];
  const Task& task = graph.tasks()[static_cast<std::size_t>(user)];
  const auto dependencies = graph.dependencies(user);
  if (std::ranges::find(dependencies, transfer) != dependencies.end()) return true;
  if (brought.output.kind == model::BufferKind::none) return false;
  const model::Area area = model::area_of(brought, brought.output.kind);
  if (!model::meet(model::area_of(task, brought.output.kind), area)) return false;
  if (task.lane == LaneKind::channel) return task.input == brought.output;
  return std::ranges::any_of(
      model::accesses_of(task, brought.peer), [&](const model::Access& access) {
        return access.buffer == brought.output &&
               access.layer == model::cache_layer_of(brought.output, brought.layer);
      });
}

std::map<TaskIndex, TaskIndex> deliveries(const TaskGraph& graph) {
  std::map<TaskIndex, TaskIndex> found;
  std::map<std::tuple<model::DeviceIndex, model::BufferKind, int, int>, TaskIndex> next;
  for (TaskIndex i = graph.size(); i-- > 0;) {
    const Task& transfer = graph.tasks()[static_cast<std::size_t>(i)];
    if (transfer.lane != LaneKind::channel) continue;
    TaskIndex first = MessageSchedule::kEnd;
    for (TaskIndex j = i + 1; j < graph.size() && first == MessageSchedule::kEnd; ++j) {
      const Task& task = graph.tasks()[static_cast<std::size_t>(j)];
      const bool own = task.device == transfer.peer &&
                       (task.lane == LaneKind::cpu || task.lane == LaneKind::channel);
      if (own && uses(graph, j, i)) first = j;
    }
    if (transfer.output.kind != model::BufferKind::none) {
      TaskIndex& later =
          next.try_emplace({transfer.peer, transfer.output.kind, transfer.output.slot,
                            model::cache_layer_of(transfer.output, transfer.layer)},
                           MessageSchedule::kEnd)
              .first->second;
      later = first = std::min(later, first);
    }
    found[i] = first;
  }
  return found;
}

void check(const planner::Request& request) {
  const auto made = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Plan>(made));
  const auto& plan = std::get<planner::Plan>(made);
  for (const model::Batch& batch : {planner::prompt_batch({13, 1}), planner::decode_batch(13)}) {
    const TaskGraph graph = planner::find_strategy(plan.strategy).lower(plan, batch);
    const MessageSchedule schedule = model::message_schedule(graph);
    for (const auto& [transfer, delivery] : deliveries(graph)) {
      CAPTURE(transfer);
      CHECK(schedule.delivery[static_cast<std::size_t>(transfer)] == delivery);
    }
  }
}

TEST_CASE("planner/message schedule: a delivery is before the first use, by trying all tasks") {
  planner::Request request{.model = model::test::named_model("tinyllama-1.1b").first_layers(4),
                           .cluster = model::test::star(4),
                           .workload = {.prompt_tokens = 13, .new_tokens = 3}};
  for (const planner::Strategy& strategy : planner::strategies()) {
    CAPTURE(strategy.name);
    request.strategy = strategy.name;
    check(request);
  }
  request.strategy = "galaxy";
  for (const char* const sums : {"ring", "tree", "halving"}) {
    CAPTURE(sums);
    request.allreduce = sums;
    request.tiles = 0;
    check(request);
  }
  request.allreduce.reset();
  request.tiles = 2;
  check(request);
  request.tiles.reset();
  request.strategy = "csps";
  request.gather_weights = true;
  check(request);
  request.gather_weights = false;
  request.strategy = "spread";
  for (const planner::DecodeMoves moves : planner::find_strategy("spread").moves()) {
    request.decode_moves = moves;
    check(request);
  }
}

}  // namespace
}  // namespace tandem::test::message_schedule_test
