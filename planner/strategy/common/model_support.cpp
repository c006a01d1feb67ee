#include "planner/strategy/common/model_support.hpp"

#include "model/base/error.hpp"

namespace tandem::planner {

std::string model_obstacle(const Strategy& strategy, const model::Transformer& model) {
  if (!strategy.sharding.replicates()) return {};
  if (model.latent)
    return "splits keys and values among devices, and latent attention has one row for all heads";
  if (model.experts) return "replicates weights, which is not planned for experts";
  return {};
}

void check_model_support(const Strategy& strategy, const model::Transformer& model) {
  const std::string no = model_obstacle(strategy, model);
  if (no.empty()) return;
  throw Error("strategy '" + strategy.name + "': " + no + " (model " + model.name +
              "); use strategy " +
              strategies_that([](const Sharding& sharding) { return !sharding.replicates(); }));
}

}  // namespace tandem::planner
