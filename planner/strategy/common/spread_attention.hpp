#pragma once

// What strategies share by which keys and values lie by positions at several devices: attention
// where the keys are, and how the keys come to one device for good.

#include <cstdint>
#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::planner {

// Another device's keys that rows are to see.
struct OtherKeys {
  model::DeviceIndex device = 0;
  model::Range keys{};  // positions
};
// Rows of one device that attend to its own keys and to others'.
struct SpreadRows {
  model::DeviceIndex device = 0;
  model::Range rows{};
  model::Range keys{};  // positions, its own
  std::vector<OtherKeys> others{};
  model::TaskIndex projected = -1;  // their queries, and keys and values
};
// Appends attention of a layer, of each of `all`: queries to the others, attention at each device
// over the keys that are there, results and softmax back and merged. Returns the last task of each.
//   bytes of rows S and another device, H heads of d, e an element: |S| (2 H d e + 8 H)
// Devices have slot 1 of `attention` and both of `softmax`.
[[nodiscard]] std::vector<model::TaskIndex> attend_spread(model::TaskGraph& graph,
                                                          const model::Transformer& transformer,
                                                          std::int32_t layer,
                                                          std::span<const SpreadRows> all);

// Rows of a prompt, the batch's only sequence, whose keys and values `device` has.
struct KeptRows {
  model::DeviceIndex device = 0;
  model::Range rows{};
  model::TaskIndex made = -1;  // after which it has those of all layers
};
// Appends the migration of a cache: `owner`, who has a cache of all positions, has what `others`
// keep come and stay, a layer after another. In layers with a window that is what later tokens will
// see. After two layers the owner asks for each further one of each device, by one number of the
// prompt's last row of its residual stream, when it has the one two before, and not before `over`,
// its last task: what is under way takes room for two layers, not for all.
//   bytes of a device's rows S in a layer, K key/value heads of d: |S| 2 K d e, and 4 of a question
void migrate_cache(model::TaskGraph& graph, const model::Transformer& transformer,
                   std::span<const KeptRows> others, model::DeviceIndex owner,
                   model::TaskIndex over);

}  // namespace tandem::planner
