#include "cli/local_plan.hpp"

#include <algorithm>
#include <optional>
#include <thread>

#include "cli/streaming_cost.hpp"
#include "exec/runtime/available_memory.hpp"
#include "model/memory.hpp"
#include "model/quantity_text.hpp"

namespace tandem::cli {

using model::Bytes;

std::variant<planner::Plan, planner::Infeasible> plan_here(const model::Transformer& transformer,
                                                           const planner::Workload& workload,
                                                           Bytes memory) {
  const model::Device device{.name = kThisMachine,
                             .cores = std::max(1U, std::thread::hardware_concurrency()),
                             .flop_rate = model::FlopsPerSecond{100e9},
                             .memory_bandwidth = model::BytesPerSecond{20e9},
                             .memory = memory,
                             .disk_bandwidth = model::BytesPerSecond{1e9}};
  model::DeviceProfile profile = nominal_profile(device);
  profile.program_bytes = model::kProgramBytes;
  return planner::make_plan({.model = transformer,
                             .cluster = model::Cluster(kThisMachine, {device}, {}, {}, {}),
                             .strategy = "local",
                             .workload = workload,
                             .profiles = {profile},
                             .window = {.blocks = std::nullopt, .retain = std::nullopt}});
}

Bytes memory_here() {
  constexpr double kShare = 0.9;
  return Bytes{kShare * exec::available_memory().bytes};
}

std::string streaming_remark(const planner::Plan& plan) {
  const planner::DevicePlan& device = plan.devices.front();
  if (!device.window.streams()) return "";
  const double whole = device.memory.total() - device.memory.weights +
                       planner::weight_bytes(plan.model, device.share, planner::Window{});
  const Bytes budget = plan.cluster.devices().front().memory;
  return "with all its weights in memory the model needs " + to_text(Bytes{whole}) + ", of " +
         to_text(budget) + " that may be used now: weights stream from the disk, " +
         to_text(Bytes{bytes_a_token(plan)}) +
         (plan.model.architecture().generates() ? " for every token; free " : "; free ") +
         to_text(Bytes{whole - budget.value()}) +
         ", or take a smaller model or fewer tokens, to avoid it";
}

}  // namespace tandem::cli
