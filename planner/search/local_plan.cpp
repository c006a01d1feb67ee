#include "planner/search/local_plan.hpp"

#include <algorithm>
#include <optional>
#include <thread>

#include "model/base/quantity_text.hpp"
#include "model/graph/memory.hpp"
#include "planner/search/memory_remedies.hpp"
#include "planner/search/streaming_cost.hpp"

namespace tandem::planner {

using model::Bytes;

Request request_here(const model::Transformer& transformer, const Workload& workload,
                     Bytes memory) {
  const model::Device device{.name = kThisMachine,
                             .cores = std::max(1U, std::thread::hardware_concurrency()),
                             .flop_rate = model::FlopsPerSecond{100e9},
                             .memory_bandwidth = model::BytesPerSecond{20e9},
                             .memory = memory,
                             .disk_bandwidth = model::BytesPerSecond{1e9}};
  model::DeviceProfile profile = nominal_profile(device);
  profile.program_bytes = model::kProgramBytes;
  return {.model = transformer,
          .cluster = model::Cluster(kThisMachine, {device}, {}, {}, {}),
          .strategy = "local",
          .workload = workload,
          .profiles = {profile},
          .window = {.blocks = std::nullopt, .retain = std::nullopt}};
}

std::variant<Plan, Infeasible> plan_here(const model::Transformer& transformer,
                                         const Workload& workload, Bytes memory) {
  return make_plan(request_here(transformer, workload, memory));
}

std::string streaming_remark(const Plan& plan) {
  const DevicePlan& device = plan.devices.front();
  if (!device.window.streams()) return "";
  const double whole = device.memory.total() - device.memory.weights +
                       weight_bytes(plan.model, device.share, Window{});
  const Bytes budget = plan.cluster.devices().front().memory;
  return "with all its weights in memory the model needs " + to_text(Bytes{whole}) + ", of " +
         to_text(budget) + " that may be used now: weights stream from the disk, " +
         to_text(Bytes{bytes_a_token(plan)}) +
         (plan.model.architecture().generates() ? " for every token; free " : "; free ") +
         to_text(Bytes{whole - budget.value()}) + ", or take " + without_streams(plan) +
         "weights in fewer bits (--dtype), a smaller model or fewer tokens, to avoid it";
}

}  // namespace tandem::planner
