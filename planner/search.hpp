#pragma once

// From cluster, model and workload to a plan, or to the reason why there is none.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planner/plan.hpp"

namespace tandem::planner {

struct Request {
  model::Transformer model;
  model::Cluster cluster;
  std::string strategy = "tensor";
  std::string partition = "galaxy";  // galaxy | equal | proportions "A:B:C", one a device
  std::string allreduce = "star";
  std::string master{};  // device name; empty: the first
  Workload workload;
  // One a device; empty: nominal_profile of each device. Emulation slowdown already applied.
  std::vector<model::DeviceProfile> profiles{};
};

// The cluster cannot hold or run the model as requested. One line a device that lacks memory.
struct Infeasible {
  std::string reason;
};

// A validated plan, or why there is none. Throws Error for a request that makes no sense (unknown
// names, proportions of the wrong number, a device with no share, more tokens than the context).
[[nodiscard]] std::variant<Plan, Infeasible> make_plan(const Request& request);

}  // namespace tandem::planner
