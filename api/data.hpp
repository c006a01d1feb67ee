#pragma once

// What the values of include/tandem/ hold.

#include <tandem/tandem.hpp>

#include "model/cluster/cluster.hpp"
#include "model/report/result.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/plan/plan.hpp"

namespace tandem {

struct Model::Data {
  model::Transformer transformer;
};

struct Platform::Data {
  model::Cluster cluster;
};

struct Plan::Data {
  planner::Plan plan;
};

struct Result::Data {
  model::Result result;
};

inline constexpr std::uint64_t kLargestText = std::uint64_t{1} << 30U;  // bytes of a JSON file

}  // namespace tandem
