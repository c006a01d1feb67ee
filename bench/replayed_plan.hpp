#pragma once

// A plan that several benchmarks replay or lower.

#include <cstdint>

#include "models.hpp"
#include "planner/plan/plan.hpp"
#include "sim/platform/platform.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::bench {

// Llama 2-70B, tensor parallel over the eight devices of klonet8, star all-reduces. Equal shares,
// whether or not they fit: what is measured is the evaluators.
inline planner::Plan llama2_70b_on_klonet8(std::int64_t new_tokens) {
  const model::Cluster cluster =
      sim::read_platform(testing::in_sources("scenarios/platforms/klonet8.xml").string()).cluster;
  planner::Plan plan{.strategy = "tensor",
                     .partition = "equal",
                     .allreduce = {"star", "star"},
                     .layout = planner::wiring(cluster, 0),
                     .model = llama2_70b(),
                     .cluster = cluster,
                     .workload = {.prompt_tokens = 32, .new_tokens = new_tokens},
                     .devices = {},
                     .profiles = {}};
  const std::int32_t devices = cluster.size();
  const auto layers = static_cast<std::int32_t>(plan.model.layers);
  const auto heads = static_cast<std::int32_t>(plan.model.heads) / devices;
  const auto columns = static_cast<std::int32_t>(plan.model.intermediate) / devices;
  for (std::int32_t d = 0; d < devices; ++d) {
    plan.devices.push_back({.share = {.layers = {0, layers},
                                      .heads = {d * heads, (d + 1) * heads},
                                      .columns = {d * columns, (d + 1) * columns},
                                      .embedding = d == 0,
                                      .head = d == 0},
                            .memory = {}});
    plan.profiles.push_back(model::nominal_profile(cluster.devices()[static_cast<std::size_t>(d)]));
  }
  plan.validate();
  return plan;
}

}  // namespace tandem::bench
