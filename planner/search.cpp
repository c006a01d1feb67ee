#include "planner/search.hpp"

#include <algorithm>
#include <numeric>

#include "model/error.hpp"
#include "planner/lowering.hpp"
#include "planner/partition/budget.hpp"
#include "planner/partition/galaxy.hpp"
#include "planner/partition/largest_remainder.hpp"
#include "planner/partition/layers.hpp"
#include "planner/partition/proportions.hpp"
#include "planner/strategy/pipeline.hpp"

namespace tandem::planner {
namespace {

constexpr const char* kMoreMemory =
    "remedy: fewer tokens, more devices or memory, or a smaller model";

model::Cluster limited(const model::Cluster& cluster, std::optional<model::Bytes> limit) {
  if (!limit) return cluster;
  std::vector<model::Device> devices = cluster.devices();
  for (model::Device& device : devices) device.memory = std::min(device.memory, *limit);
  return {cluster.name(), std::move(devices), cluster.routers(), cluster.links(), cluster.edges()};
}

void check_window(const Request& request) {
  const std::optional<std::int32_t> blocks = request.window.blocks;
  const std::optional<std::int32_t> retain = request.window.retain;
  if (blocks && *blocks < 0) {
    throw Error("window " + std::to_string(*blocks) + ": expected at least 1 block, all or auto");
  }
  if (retain && (*retain < 0 || *retain > request.model.layers)) {
    throw Error("retain " + std::to_string(*retain) + ": expected 1 to " +
                std::to_string(request.model.layers) + ", the layers of " + request.model.name +
                ", none or auto");
  }
  if (blocks == 0 && retain.value_or(0) > 0) {
    throw Error("retain " + std::to_string(*retain) +
                ": expected none with window all, which keeps every block; leave it out");
  }
}

// The plan without shares.
Plan outline(const Request& request, const Strategy& strategy, const AllreduceChoice& allreduce) {
  Plan plan{.strategy = request.strategy,
            .partition = strategy.splits || strategy.splits_layers ? request.partition : "",
            .allreduce = allreduce,
            .model = request.model,
            .cluster = limited(request.cluster, request.memory_limit),
            .master = request.master.empty() ? 0 : request.cluster.find(request.master),
            .workload = request.workload,
            .devices = {},
            .profiles = request.profiles,
            .release = request.release};
  plan.model.validate();
  plan.model.require_decoder("planned");
  check_window(request);
  plan.workload.validate(plan.model);
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

// Of a partition other than galaxy, by device.
std::vector<double> given_proportions(const Plan& plan) {
  if (plan.partition == "equal") return std::vector<double>(plan.profiles.size(), 1.0);
  if (plan.partition.find_first_of("0123456789") == std::string::npos) {
    throw Error("partition '" + plan.partition +
                "': unknown, expected galaxy, equal or proportions A:B:C, one a device");
  }
  return parse_proportions(plan.partition, plan.cluster);
}

Split find_split(const Plan& plan, const Strategy& strategy, const Budget& budget) {
  if (!strategy.splits) return master_alone(plan);
  if (plan.partition == "galaxy") return galaxy_split(budget, capacities(plan));
  return proportional_split(plan.model, given_proportions(plan));
}

std::vector<model::Share> find_shares(const Plan& plan, const Strategy& strategy,
                                      const Budget& budget) {
  if (!strategy.splits_layers)
    return to_shares(plan.model, plan.master, find_split(plan, strategy, budget));
  const bool balances = plan.partition == "galaxy";
  const std::vector<double> weights = balances ? capacities(plan) : given_proportions(plan);
  std::vector<std::int64_t> layers;
  if (balances) layers = balanced_layers(budget, weights);
  // Layers that do not fit anywhere are split as well, so that the shortage can be told.
  if (std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) < plan.model.layers)
    layers = proportional_shares(weights, plan.model.layers);
  return layer_shares(plan.model, stage_order(plan), plan.master, layers);
}

// What the shortage has been counted with.
std::string least_text(const std::vector<Window>& windows) {
  Window least;
  for (const Window window : windows) {
    if (window.streams()) least = window;
  }
  if (!least.streams()) return "no device can stream weights: no 'tandem:disk_bandwidth'\n";
  return "this is with a window of " + std::to_string(least.blocks) +
         (least.blocks == 1 ? " block" : " blocks") + " and " +
         (least.retain > 0 ? "one FFN block in " + std::to_string(least.retain) : "no block") +
         " retained, on devices that have a disk\n";
}

// A window that was asked for needs a disk.
void check_disk(const Plan& plan, std::size_t d, Window window) {
  const model::Device& device = plan.cluster.devices()[d];
  if (!window.streams() || device.disk_bandwidth.value() > 0.0) return;
  throw Error("device '" + device.name +
              "': a window streams weights from its disk, expected a positive "
              "'tandem:disk_bandwidth' in the platform; give it one, or plan with '--window all'");
}

// Why `shares` give some device nothing to do; empty if they do not.
std::string idle_devices(const Plan& plan, const Strategy& strategy,
                         const std::vector<model::Share>& shares) {
  const std::string least = strategy.splits_layers ? "one layer" : "one head and one FFN column";
  std::string lines;
  for (std::size_t d = 0; d < shares.size(); ++d) {
    if (!shares[d].heads.empty() || !shares[d].columns.empty()) continue;
    lines += "device '" + plan.cluster.devices()[d].name + "': its share is less than " + least +
             " by partition '" + plan.partition + "'\n";
  }
  if (!lines.empty()) {
    lines += "remedy: leave it out of the platform, free memory on it, or use --partition equal";
  }
  return lines;
}

using Answer = std::variant<Plan, Infeasible>;

Answer make_plan(const Request& request, const Strategy& strategy,
                 const AllreduceChoice& allreduce) {
  Plan plan = outline(request, strategy, allreduce);
  // Devices beyond the heads get FFN columns alone.
  const std::int64_t parts = std::max(plan.model.heads, plan.model.intermediate);
  if (strategy.splits && plan.cluster.size() > parts) {
    return Infeasible{"platform '" + plan.cluster.name() +
                      "': " + std::to_string(plan.cluster.size()) + " devices but only " +
                      std::to_string(plan.model.heads) + " attention heads and " +
                      std::to_string(plan.model.intermediate) + " FFN columns in " +
                      plan.model.name + "\nremedy: fewer devices, or a larger model"};
  }
  if (strategy.splits_layers && plan.cluster.size() > plan.model.layers) {
    return Infeasible{"platform '" + plan.cluster.name() +
                      "': " + std::to_string(plan.cluster.size()) + " devices but only " +
                      std::to_string(plan.model.layers) + " layers in " + plan.model.name +
                      "\nremedy: fewer devices, or a larger model"};
  }
  std::vector<std::int64_t> slots;
  slots.reserve(plan.profiles.size());
  for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    slots.push_back(strategy.row_buffers(plan, d));
  }
  const bool streams = request.window.blocks.value_or(0) > 0;
  std::vector<Window> windows;
  if (streams) windows = least_windows(plan, request.window);
  Budget budget(plan, slots, windows);
  std::vector<model::Share> shares = find_shares(plan, strategy, budget);
  std::string lack = budget.shortage(shares);
  if (!lack.empty() && !request.window.blocks) {
    windows = least_windows(plan, request.window);
    budget = Budget(plan, slots, windows);
    shares = find_shares(plan, strategy, budget);
    lack = budget.shortage(shares);
  }
  if (!lack.empty()) {
    if (!windows.empty()) lack += least_text(windows);
    return Infeasible{lack + kMoreMemory};
  }
  if (strategy.splits || strategy.splits_layers) {
    if (std::string idle = idle_devices(plan, strategy, shares); !idle.empty()) {
      return Infeasible{std::move(idle)};
    }
  }
  plan.devices.reserve(shares.size());
  std::vector<std::vector<Window>> choices;
  for (std::size_t d = 0; d < shares.size(); ++d) {
    plan.devices.push_back({.share = shares[d], .memory = {}});
    choices.push_back(window_choices(budget, d, shares[d], request.window));
    require(!choices.back().empty(), "make_plan: a share that fits has a window that does");
  }
  for (std::size_t d = 0; d < shares.size() && streams; ++d)
    check_disk(plan, d, choices[d].front());
  choose_windows(plan, choices);
  for (std::size_t d = 0; d < shares.size(); ++d) {
    plan.devices[d].memory = budget.use(d, shares[d], plan.devices[d].window);
  }
  plan.validate();
  return plan;
}

// Auto, where asked for, is the first candidate with which there is a plan, then the fastest one
// with the shares of that plan.
Answer make_auto_plan(const Request& request, const Strategy& strategy,
                      const AllreduceChoice& wanted) {
  const auto with = [&](const std::string& candidate) {
    AllreduceChoice choice = wanted;
    for (std::string* const phase : {&choice.prompt, &choice.decode}) {
      if (*phase == kAutoAllreduce) *phase = candidate;
    }
    return choice;
  };
  const std::vector<std::string> candidates =
      allreduce_candidates(outline(request, strategy, with("star")));
  Answer first = make_plan(request, strategy, with(candidates.front()));
  for (std::size_t i = 1; i < candidates.size() && std::holds_alternative<Infeasible>(first); ++i) {
    Answer next = make_plan(request, strategy, with(candidates[i]));
    if (std::holds_alternative<Plan>(next)) first = std::move(next);
  }
  if (std::holds_alternative<Infeasible>(first)) return first;
  const Plan& plan = std::get<Plan>(first);
  const AllreduceChoice choice = fastest_allreduce(plan, wanted, request.evaluate);
  if (choice == plan.allreduce) return first;
  Answer fastest = make_plan(request, strategy, choice);
  return std::holds_alternative<Plan>(fastest) ? fastest : first;
}

}  // namespace

std::variant<Plan, Infeasible> make_plan(const Request& request) {
  const Strategy& strategy = find_strategy(request.strategy);
  if (!strategy.splits) return make_plan(request, strategy, {});
  const AllreduceChoice wanted = parse_allreduce_choice(request.allreduce);
  if (wanted.prompt != kAutoAllreduce && wanted.decode != kAutoAllreduce)
    return make_plan(request, strategy, wanted);
  return make_auto_plan(request, strategy, wanted);
}

}  // namespace tandem::planner
