#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "planner/memory/plan_storage.hpp"
#include "planner/search/axes.hpp"
#include "planner/search/objective.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

bool numbers_open(const Draft& draft) {
  const Request& request = draft.request;
  return request.open_axes.tiles && !request.tiles && !request.sparse &&
         request.cluster.size() > 1 && find_strategy(request.strategy).sharding.exchanges_rows();
}

void walk_numbers(const Draft& draft, Alternatives& all) {
  const Request& request = draft.request;
  const Found found = all.plan(draft);
  const auto seconds_of = [&](const Plan& plan, Objective objective) {
    return predicted_time(plan, objective, request.evaluate);
  };
  all.compare_by([&](const Plan& plan) { return seconds_of(plan, request.objective); });
  const Plan* const plan = found.plan();
  // Chunks of a prompt have a clock of their own.
  if (plan == nullptr || found.chunk > 0 || request.objective == Objective::latency) {
    all.offer("as found", [&] { return Found(found); });
    return;
  }
  // New tokens do not depend on tiles.
  const double before = found.seconds ? *found.seconds : seconds_of(*plan, request.objective);
  const double tokens = before - seconds_of(*plan, Objective::ttft);
  all.offer("as found", [&] {
    Found same = found;
    same.seconds = before;
    return same;
  });
  std::int32_t best = plan->tiles;
  const auto offer = [&](std::int32_t tiles) {
    if (tiles < 0 || tiles > kMostTiles) return false;
    const bool is_better = all.offer(std::to_string(tiles), [&]() -> Found {
      Plan tiled = *plan;
      tiled.tiles = tiles;
      tiled = with_predicted_memory(std::move(tiled));
      if (!fits(tiled)) return {.answer = Infeasible{"its messages do not fit"}};
      const double seconds = tokens + seconds_of(tiled, Objective::ttft);
      return {.answer = std::move(tiled), .decisions = found.decisions, .seconds = seconds};
    });
    if (is_better) best = tiles;
    return is_better;
  };
  for (std::int32_t step = std::max(1, best / 2); step > 0; step /= 2) {
    while (offer(best + step) || offer(best - step)) continue;
  }
}

}  // namespace

const Axis& tile_numbers_axis() {
  static constexpr Axis axis{
      .name = "number of tiles", .applies = numbers_open, .walk = walk_numbers};
  return axis;
}

}  // namespace tandem::planner
