#pragma once

// The window as edges of the task graph: loads, releases and their dependents. Strategies do not
// see it; DeviceTasks (strategy/common/block.hpp) calls it.

#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Loads and releases of all devices in one step.
//   load b            waits for the release of block b - w (of the step before, if b < w)
//   a block's first compute task waits for its load
//   release, early    waits for the block's last compute task
//   release, late     waits for the sum of the block's partial results, if the device receives it;
//                     else as early. If the block has the norm of that sum
//                     (Architecture::sum_norms), every release waits for the norm.
// Blocks are those of streamed_blocks, in its order. Appends nothing for a device that does not
// stream.
class WindowTasks {
 public:
  // `graph` and `plan` outlive this object.
  WindowTasks(model::TaskGraph& graph, const Plan& plan);

  // Returns whether the device reads embedding rows from its disk.
  [[nodiscard]] bool fetches(model::DeviceIndex device) const;
  // Returns the tiles of the device's rows of the LM head, or all of them as one.
  [[nodiscard]] std::span<const model::Range> head_tiles(model::DeviceIndex device) const;

  // Appends the load of the block with `columns`; the block's first compute task depends on it.
  // Returns -1 if the block is resident. Throws logic_error unless it is the device's next streamed
  // block.
  model::TaskIndex load(model::DeviceIndex device, model::WeightBlock block, std::int32_t layer,
                        model::Range columns);
  // Marks the block loaded last as computed by `last`.
  void computed(model::DeviceIndex device, model::TaskIndex last);
  // Marks the sum of the partial results as ready after all of `sum`.
  void reduced(model::DeviceIndex device, std::span<const model::TaskIndex> sum);
  // After the step's last task: appends the remaining releases, and the events for the next step.
  // Throws Error for a batch that does not use a streamed LM head: no row of it is sampled.
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
