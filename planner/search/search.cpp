#include "planner/search/search.hpp"

#include <array>

#include "planner/search/axes.hpp"
#include "planner/search/draft_plan.hpp"
#include "planner/search/request_checks.hpp"
#include "planner/search/token_ffn.hpp"

namespace tandem::planner {

namespace {

// Outermost first. An axis that edits made plans is above those whose plans it edits.
std::span<const Axis* const> all_axes() {
  static const std::array axes{&parts_axis(), &tile_numbers_axis(), &levels_axis(), &stages_axis(),
                               &moves_axis(), &usual_sums_axis(),   &wire_axis(),   &cache_axis(),
                               &head_axis(),  &token_ffn_axis(),    &phase_axis(),  &tiles_axis(),
                               &group_axis(), &rounds_axis(),       &sums_axis()};
  return axes;
}

}  // namespace

Axes outer_axes() { return all_axes().first(6); }

Found find_plan(const Request& request) {
  check_request(request);
  Draft draft{.request = request};
  // Weights do not stream.
  if ((request.sparse || request.gather_weights) && !request.window.blocks)
    draft.request.window.blocks = 0;
  return walk(draft, all_axes(),
              [](const Draft& decided) -> Found { return {.answer = plan_draft(decided)}; });
}

Answer make_plan(const Request& request) { return find_plan(request).answer; }

}  // namespace tandem::planner
