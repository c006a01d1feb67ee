#pragma once

// Attention over a cache that is spread over devices by position, and the migration of such a cache
// to one device. Shared by several strategies.

#include <cstdint>
#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::planner {

// Rows, and the positions of their sequences whose keys they may see at one device.
struct RowKeys {
  model::Range rows{};
  model::Range keys{};
};
// Another device's keys that rows attend to: `rows` are those of `keys`, adjacent, whose queries
// travel in one message.
struct OtherKeys {
  model::DeviceIndex device = 0;
  model::Range rows{};
  std::vector<RowKeys> keys{};
};
// Rows of one device, which attend to its own keys and to others'. Rows of different sequences have
// different keys.
struct SpreadRows {
  model::DeviceIndex device = 0;
  std::vector<RowKeys> keys{};  // its own
  std::vector<OtherKeys> others{};
  model::TaskIndex projected = -1;  // their queries, and keys and values
};
// Appends a layer's attention for each of `all`: queries travel to the other devices, each device
// attends over its keys, and results with softmax travel back and are merged. Returns the last
// tasks of each.
//   bytes of rows S and another device, H heads of d, e an element: |S| (2 H d e + 8 H)
// Devices need slot 1 of `attention` and both slots of `softmax`.
[[nodiscard]] std::vector<std::vector<model::TaskIndex>> attend_spread(
    model::TaskGraph& graph, const model::Transformer& transformer, std::int32_t layer,
    std::span<const SpreadRows> all);

// Rows of a prompt, the batch's only sequence, whose keys and values `device` caches.
struct KeptRows {
  model::DeviceIndex device = 0;
  model::Range rows{};
  model::TaskIndex made = -1;  // the task after which it has those of all layers
};
// Appends the migration of a cache: what `others` cache moves to `owner`, whose cache has memory
// for all positions, layer by layer, and stays there. In layers with a window only the positions
// that later tokens see move. After two layers the owner requests each further layer of each device
// with one number of the prompt's last row of its residual stream, once it has the layer two before
// and not before `over`, its last task: messages in flight need memory for two layers, not for all.
//   bytes of a device's rows S in a layer, K key/value heads of d: |S| 2 K d e, and 4 a request
void migrate_cache(model::TaskGraph& graph, const model::Transformer& transformer,
                   std::span<const KeptRows> others, model::DeviceIndex owner,
                   model::TaskIndex over);

}  // namespace tandem::planner
