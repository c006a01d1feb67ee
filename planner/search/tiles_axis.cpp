#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "planner/memory/plan_storage.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/axes.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

bool tiles_open(const Draft& draft) {
  const Request& request = draft.request;
  if (!request.groups.empty()) return !request.group_strategy.empty() && !request.tiles;
  const Sharding& sharding = find_strategy(request.strategy).sharding;
  if (request.sparse) return request.sparse->tiles.empty() && !sharding.sparse_by_rank();
  return sharding.exchanges_rows() && !request.tiles;
}

Plan with_tiles(Plan plan, std::int32_t tiles) {
  if (plan.sparse) {
    plan.sparse->set_tiles({tiles});
  } else {
    plan.tiles = tiles;
  }
  return plan;
}

// New tokens take the same time with any tiles, so they are timed once.
Alternatives::Clock tiles_clock(const Evaluator& evaluate) {
  return [evaluate, tokens = std::optional<double>()](const Plan& plan) mutable {
    // The few layers of a trial drop nothing.
    if (plan.sparse) return predicted_request_time(plan, evaluate);
    if (!tokens) tokens = trial_tokens_time(plan, evaluate);
    return trial_prompt_time(plan, evaluate) + *tokens;
  };
}

void walk_tiles(const Draft& draft, Alternatives& all) {
  Found found = all.plan(draft);
  const Plan* const plan = found.plan();
  const auto as_found = [&] { return found; };
  if (plan == nullptr || search_ended()) {
    all.offer("as found", as_found);
    return;
  }
  all.compare_by(tiles_clock(draft.request.evaluate));
  const auto offer = [&](std::int32_t tiles) {
    // The memory takes longer to find than the time.
    const auto fitting = [&](Plan tiled) -> Answer {
      if (tiled != *plan) tiled = with_predicted_memory(std::move(tiled));
      if (!fits(tiled)) return Infeasible{"its messages do not fit"};
      return tiled;
    };
    return all.offer(
        std::to_string(tiles),
        [&]() -> Found {
          return {.answer = with_tiles(*plan, tiles), .decisions = found.decisions};
        },
        fitting);
  };
  bool is_better = false;
  for (const std::int32_t tiles : {0, 1, 2, 4}) {
    if (!plan->sparse || tiles > 0) is_better = offer(tiles);
  }
  // More for as long as they are better.
  for (std::int32_t tiles = 8; is_better && tiles <= kMostTiles; tiles *= 2)
    is_better = offer(tiles);
  if (all.best() == nullptr) all.offer("as found", as_found);
}

}  // namespace

const Axis& tiles_axis() {
  static constexpr Axis axis{.name = "tiles", .applies = tiles_open, .walk = walk_tiles};
  return axis;
}

}  // namespace tandem::planner
