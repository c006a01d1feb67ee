#include "planner/strategy/sparse/sparse_plan.hpp"

#include "model/base/error.hpp"

namespace tandem::planner {

void refuse_sparse(const std::string& what) {
  throw Error("plan: sparse attention (--levels, --drop): " + what);
}

void check_sparse_plan(const Plan& plan) {
  if (plan.model.architecture().mask != model::Mask::causal ||
      !plan.model.architecture().generates())
    refuse_sparse("model " + plan.model.name +
                  " attends to later tokens, too, expected a decoder; leave them out");
  for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(plan.model.layers); ++layer) {
    if (plan.model.window_of(layer) > 0)
      refuse_sparse("layer " + std::to_string(layer) + " of model " + plan.model.name + " sees " +
                    std::to_string(plan.model.window_of(layer)) +
                    " tokens back, expected all; leave them out");
  }
  if (plan.tiles != 0)
    refuse_sparse(std::to_string(plan.tiles) + " tiles, expected 0; plan without '--tiles'");
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    if (plan.devices[d].window.streams())
      refuse_sparse("device '" + plan.cluster.devices()[d].name +
                    "' streams its weights, expected all in memory; plan with '--window all'");
  }
  if (plan.capacity.sequences > 0) refuse_served_sparse(plan);
}

void check_sparse_batch(const Plan& plan, const model::Batch& batch) {
  if (plan.capacity.sequences > 0) refuse_served_sparse(plan);
  require(!batch.segments.empty(), "sparse attention: a batch with a sequence");
  if (batch.segments.size() == 1) return;
  refuse_sparse("a step of " + std::to_string(batch.segments.size()) +
                " sequences, expected one; plan without them for many requests");
}

void refuse_served_sparse(const Plan& plan) {
  if (!plan.sparse) return;
  refuse_sparse(
      "many requests, a server or a chat, expected one request; leave out '--workload' or "
      "'--samples', or plan without levels");
}

}  // namespace tandem::planner
