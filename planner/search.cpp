#include "planner/search.hpp"

#include "model/error.hpp"
#include "planner/lowering.hpp"
#include "planner/partition/budget.hpp"
#include "planner/partition/galaxy.hpp"
#include "planner/partition/proportions.hpp"

namespace tandem::planner {
namespace {

constexpr const char* kMoreMemory =
    "remedy: fewer tokens, more devices or memory, or a smaller model";

// The plan without shares.
Plan outline(const Request& request, const Strategy& strategy) {
  Plan plan{.strategy = request.strategy,
            .partition = strategy.splits ? request.partition : "",
            .allreduce = strategy.splits ? request.allreduce : "",
            .model = request.model,
            .cluster = request.cluster,
            .master = request.master.empty() ? 0 : request.cluster.find(request.master),
            .workload = request.workload,
            .devices = {},
            .profiles = request.profiles};
  plan.model.validate();
  plan.workload.validate(plan.model);
  if (strategy.splits && plan.allreduce != "star") {
    throw Error("allreduce '" + plan.allreduce + "': unknown, expected star");
  }
  if (plan.profiles.empty()) {
    plan.profiles.reserve(plan.cluster.devices().size());
    for (const model::Device& device : plan.cluster.devices()) {
      plan.profiles.push_back(model::nominal_profile(device));
    }
  }
  if (plan.profiles.size() != plan.cluster.devices().size()) {
    throw Error("profiles: " + std::to_string(plan.profiles.size()) +
                ": expected one for each of the " + std::to_string(plan.cluster.size()) +
                " devices of platform '" + plan.cluster.name() + "'");
  }
  return plan;
}

Split master_alone(const Plan& plan) {
  Split split{std::vector<std::int64_t>(plan.profiles.size()),
              std::vector<std::int64_t>(plan.profiles.size())};
  split.heads[static_cast<std::size_t>(plan.master)] = plan.model.heads;
  split.columns[static_cast<std::size_t>(plan.master)] = plan.model.intermediate;
  return split;
}

Split find_split(const Plan& plan, const Strategy& strategy, const Budget& budget) {
  if (!strategy.splits) return master_alone(plan);
  if (plan.partition == "galaxy") return galaxy_split(budget, capacities(plan));
  if (plan.partition == "equal") {
    return proportional_split(plan.model, std::vector<double>(budget.devices(), 1.0));
  }
  if (plan.partition.find_first_of("0123456789") == std::string::npos) {
    throw Error("partition '" + plan.partition +
                "': unknown, expected galaxy, equal or proportions A:B:C, one a device");
  }
  return proportional_split(plan.model, parse_proportions(plan.partition, plan.cluster));
}

// Why `split` gives some device nothing to do; empty if it does not.
std::string idle_devices(const Plan& plan, const Split& split) {
  std::string lines;
  for (std::size_t d = 0; d < split.heads.size(); ++d) {
    if (split.heads[d] > 0 || split.columns[d] > 0) continue;
    lines += "device '" + plan.cluster.devices()[d].name +
             "': its share is less than one head and one FFN column by partition '" +
             plan.partition + "'\n";
  }
  if (!lines.empty()) {
    lines += "remedy: leave it out of the platform, free memory on it, or use --partition equal";
  }
  return lines;
}

}  // namespace

std::variant<Plan, Infeasible> make_plan(const Request& request) {
  const Strategy& strategy = find_strategy(request.strategy);
  Plan plan = outline(request, strategy);
  if (strategy.splits && plan.cluster.size() > plan.model.heads) {
    return Infeasible{"platform '" + plan.cluster.name() +
                      "': " + std::to_string(plan.cluster.size()) + " devices but only " +
                      std::to_string(plan.model.heads) + " attention heads in " + plan.model.name +
                      "\nremedy: fewer devices, or a larger model"};
  }
  std::vector<std::int64_t> slots;
  slots.reserve(plan.profiles.size());
  for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    slots.push_back(strategy.row_buffers(plan, d));
  }
  const Budget budget(plan, std::move(slots));
  const Split split = find_split(plan, strategy, budget);
  if (const std::string lack = budget.shortage(split); !lack.empty()) {
    return Infeasible{lack + kMoreMemory};
  }
  if (strategy.splits) {
    if (std::string idle = idle_devices(plan, split); !idle.empty()) {
      return Infeasible{std::move(idle)};
    }
  }
  const std::vector<model::Share> shares = to_shares(plan.model, plan.master, split);
  plan.devices.reserve(shares.size());
  for (std::size_t d = 0; d < shares.size(); ++d) {
    plan.devices.push_back({.share = shares[d], .memory = budget.use(d, shares[d])});
  }
  plan.validate();
  return plan;
}

}  // namespace tandem::planner
