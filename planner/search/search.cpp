#include "planner/search/search.hpp"

#include <array>

#include "planner/search/axes.hpp"
#include "planner/search/draft_plan.hpp"
#include "planner/search/request_checks.hpp"
#include "planner/search/token_ffn.hpp"

namespace tandem::planner {

Found find_plan(const Request& request) {
  // Outermost first. An axis that edits made plans is above those whose plans it edits.
  const std::array axes{&wire_axis(),      &cache_axis(),  &head_axis(),
                        &token_ffn_axis(), &phase_axis(),  &tiles_axis(),
                        &group_axis(),     &rounds_axis(), &sums_axis()};
  check_request(request);
  Draft draft{.request = request};
  // Weights do not stream.
  if ((request.sparse || request.gather_weights) && !request.window.blocks)
    draft.request.window.blocks = 0;
  return walk(draft, axes, plan_draft);
}

Answer make_plan(const Request& request) { return find_plan(request).answer; }

}  // namespace tandem::planner
