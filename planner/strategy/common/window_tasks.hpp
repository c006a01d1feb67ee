#pragma once

// The window as edges of the task graph: loads, releases, and what waits for them. Strategies know
// nothing of it; DeviceTasks (strategy/common/block.hpp) calls it.

#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// One step's loads and releases of all devices.
//   load b            waits for the release of block b - w (of the step before, where b < w)
//   a block's first compute task waits for its load
//   release, early    waits for the block's last compute task
//   release, late     waits for the sum of the block's partial results at the device, where it gets
//                     that sum; else as early. So does every release where the block has the norm
//                     of that sum (Architecture::sum_norms): it waits for the norm.
// Blocks are those that streamed_blocks lists, in its order. Nothing is appended for a device that
// does not stream.
class WindowTasks {
 public:
  // `graph` and `plan` outlive this object.
  WindowTasks(model::TaskGraph& graph, const Plan& plan);

  // Whether the device reads embedding rows from its disk.
  [[nodiscard]] bool fetches(model::DeviceIndex device) const;
  // What the device's rows of the LM head are computed in: its tiles, or all of them at once.
  [[nodiscard]] std::span<const model::Range> head_tiles(model::DeviceIndex device) const;

  // Appends the load of the block that has `columns`, all of it, which the block's first compute
  // task depends on; -1: it is resident. Throws logic_error unless it is the device's next streamed
  // block.
  model::TaskIndex load(model::DeviceIndex device, model::WeightBlock block, std::int32_t layer,
                        model::Range columns);
  // The block loaded last has been computed by `last`.
  void computed(model::DeviceIndex device, model::TaskIndex last);
  // The sum of the partial results is there with all of `sum`.
  void reduced(model::DeviceIndex device, std::span<const model::TaskIndex> sum);
  // After the step's last task: what is left to release, and the events for the next step. Throws
  // Error for a batch that does not pass over a streamed LM head: no row of it is sampled.
  void finish();

 private:
  struct Device {
    Window window;
    std::vector<StreamedBlock> blocks;
    std::vector<model::Range> tiles;
    std::int32_t first_event = 0;  // of the window.blocks events of this device
    std::vector<model::TaskIndex> releases;
    std::size_t loads = 0;
    model::TaskIndex computed = -1;  // by it was the block that waits for its late release
  };

  Device& at(model::DeviceIndex device) { return devices_[static_cast<std::size_t>(device)]; }
  void release(model::DeviceIndex device, std::span<const model::TaskIndex> after);
  [[noreturn]] void fail_no_pass(model::DeviceIndex device) const;

  model::TaskGraph* graph_;
  const Plan* plan_;
  std::vector<Device> devices_;
};

}  // namespace tandem::planner
