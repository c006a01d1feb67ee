#pragma once

// Small clusters, models and plans for the planner's tests.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/partition/budget.hpp"
#include "planner/plan/plan.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::test {

struct DeviceSpec {
  double flops_per_s = 1e9;
  double memory_bytes = 1e12;
  double disk_bytes_per_s = 1e6;
};

// Devices "d0", "d1", ... each on its own split-duplex access link to one router.
model::Cluster star_cluster(const std::vector<DeviceSpec>& devices);

struct ModelSizes {
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 4;
  std::int64_t head_dim = 2;
  std::int64_t intermediate = 6;
  std::int64_t vocab = 11;
};
model::Transformer small_model(const ModelSizes& sizes);

// A plan of `strategy` with these shares on unlimited devices.
planner::Plan plan_of(const std::string& strategy, const ModelSizes& sizes,
                      model::DeviceIndex master, const planner::Split& split);

// A plan of an odd small model of `family` on so many unlimited devices, of which each streams its
// weights through `window` blocks (0: holds them).
planner::Plan plan_of_family(const planner::Strategy& strategy, const std::string& allreduce,
                             int devices, model::Family family, std::int32_t window);

// A pipeline of so many unlimited devices, a layer each.
planner::Plan pipeline_of(std::int32_t devices);

// Bytes of all messages out of buffers of that kind.
double sent(const model::TaskGraph& graph, model::BufferKind of);

}  // namespace tandem::test
