// What copying on write takes of a step, on SimGrid and analytically.

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "model/graph/cache_copies.hpp"
#include "model/predict/analytic.hpp"
#include "model/predict/program.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "sim/replay/replay.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::cache_copies_replay_test {
namespace {

using model::CacheOpKind;
using model::ScheduledStep;

constexpr std::int32_t kPrompt = 70;  // a block of 64 positions, and 6 of another

// A prompt; what is given; and a step of the first sequence alone.
std::vector<ScheduledStep> steps_of(const model::Batch& middle) {
  return {{.batch = {{{.sequence = 0, .past = 0, .rows = kPrompt}}}, .ended = 0},
          {.batch = middle, .ended = 1},
          {.batch = {{{.sequence = 0, .past = kPrompt, .rows = 1}}}, .ended = 2}};
}

// By device and step: how long its first task took.
using First = std::map<std::pair<model::DeviceIndex, std::int32_t>, double>;

First first_tasks(const planner::Plan& plan, bool simgrid,
                  const std::vector<ScheduledStep>& steps) {
  model::RecordedScheduler scheduler(steps);
  planner::GraphCache graphs(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, true);
  if (simgrid) {
    sim::replay_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  } else {
    model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  }
  std::map<std::pair<model::DeviceIndex, std::int32_t>, model::Span> first;
  for (const model::Span& span : recorder.trace().spans) {
    if (span.lane != model::LaneKind::cpu || span.kind == model::TaskKind::capture ||
        span.kind == model::TaskKind::deliver)
      continue;
    const auto at = first.try_emplace({span.device, span.step}, span).first;
    if (span.task < at->second.task) at->second = span;
  }
  First lengths;
  for (const auto& [key, span] : first) lengths[key] = span.end - span.start;
  return lengths;
}

TEST_CASE("sim/cache copies: a step that writes into a shared block takes as long as its copy") {
  for (const std::string strategy : {"local", "tensor", "pipeline"}) {
    CAPTURE(strategy);
    planner::Request request{
        .model = small_model({.layers = 6, .heads = 6, .kv_heads = 3, .head_dim = 4}),
        .cluster = star_cluster(
            std::vector<DeviceSpec>(strategy == "local" ? 1 : 3, {.flops_per_s = 1e7})),
        .strategy = strategy,
        .workload = {.prompt_tokens = kPrompt, .new_tokens = 8}};
    request.model.max_context = 512;
    auto made = planner::make_plan(request);
    REQUIRE(std::holds_alternative<planner::Plan>(made));
    const auto plan = std::get<planner::Plan>(std::move(made));
    const model::Batch alone{{{.sequence = 1, .past = kPrompt, .rows = 1}}};
    model::Batch forked = alone;
    forked.cache = {{.kind = CacheOpKind::fork, .sequence = 1, .from = 0, .positions = kPrompt}};
    // Of 70 positions, the second block's 6: keys in whole panels of 16.
    const model::CopiedPositions copied{.keys = 16, .values = 6};
    planner::GraphCache graphs(plan);
    for (const bool simgrid : {false, true}) {
      CAPTURE(simgrid);
      const First with = first_tasks(plan, simgrid, steps_of(forked));
      const First without = first_tasks(plan, simgrid, steps_of(alone));
      REQUIRE(with.size() == without.size());
      for (const auto& [key, length] : without) {
        const model::DeviceIndex device = key.first;
        const std::int32_t step = key.second;
        CAPTURE(device);
        CAPTURE(step);
        const model::Bytes bytes = model::copied_bytes(graphs.graph_of(alone), device, copied);
        const auto& share = plan.devices[static_cast<std::size_t>(device)].share;
        CHECK(bytes.value() == 4.0 * share.layers.size() * 4.0 *
                                   plan.model.kv_heads_for(share.heads).size() * (16 + 6));
        const double more =
            step == 1 ? model::cache_copy_time(plan.cost_model(), device, bytes).value() : 0.0;
        CHECK((step != 1 || share.heads.empty() || more > 0.0));
        CHECK(with.at(key) == doctest::Approx(length + more).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("model/cache copies: who writes first copies, the other has the block alone then") {
  model::CacheCopies copies;
  CHECK(!copies.next({{{.sequence = 0, .past = 0, .rows = 70}}}).any());
  model::Batch both{
      {{.sequence = 0, .past = 70, .rows = 1}, {.sequence = 1, .past = 70, .rows = 1}}};
  both.cache = {{.kind = CacheOpKind::fork, .sequence = 1, .from = 0, .positions = 70}};
  CHECK(copies.next(both) == model::CopiedPositions{.keys = 16, .values = 6});
  both.cache.clear();
  for (model::Segment& segment : both.segments) ++segment.past;
  CHECK(!copies.next(both).any());
  // At a block's edge nothing is copied.
  CHECK(
      !copies
           .next(
               {.segments = {{.sequence = 2, .past = 64, .rows = 3}},
                .cache = {{.kind = CacheOpKind::fork, .sequence = 2, .from = 0, .positions = 64}}})
           .any());
  // Sequences that were computed elsewhere share nothing.
  CHECK(!copies.next({{{.sequence = 3, .past = 1000, .rows = 1}}}).any());
  CHECK(!copies.next({{{.sequence = 3, .past = 500, .rows = 20}}}).any());
}

}  // namespace
}  // namespace tandem::test::cache_copies_replay_test
