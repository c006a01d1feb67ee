#pragma once

// The announcement of a step: the message that the master sends to every other device before the
// step, on the wire a StepBegin (exec/transport/wire.hpp). A device that waits for data of the
// master anyway receives it in time, because the announcement leaves first. A device that could
// start a step on its own must wait for the announcement itself, which is then a transfer of the
// graph: its bytes take time on links in every evaluator and in emulation.

#include <cstdint>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::model {

// Bytes of a StepBegin, frame included: a frame of 8, the step, three counts, and these.
inline constexpr std::int64_t kAnnouncementBytes = 24;
inline constexpr std::int64_t kAnnouncedSegmentBytes = 16;
inline constexpr std::int64_t kAnnouncedPlaceBytes = 8;  // of a segment, where batches have them
inline constexpr std::int64_t kAnnouncedCacheOpBytes = 16;
inline constexpr std::int64_t kAnnouncedTokenBytes = 4;
// `tokens`: the number of rows whose tokens the message carries; only embedding devices need them.
[[nodiscard]] std::int64_t announcement_bytes(const Batch& batch, std::int64_t tokens);
// The announcement to a device: with the tokens of all rows if the graph has it embed.
[[nodiscard]] std::int64_t announcement_bytes(const TaskGraph& graph, DeviceIndex device);

// Returns the tasks of `graph` that a device could start before the announcement reaches it, in
// order. Such tasks, and those before them in their lane, depend neither on the master (its cpu
// tasks or messages) nor on anything that arrives after the announcement. The announcement takes
// the latency of the direct route; data takes at least the sum of its route's latencies and leaves
// later. Loads need no announcement: they depend on no batch and run ahead.
[[nodiscard]] std::vector<TaskIndex> unannounced(const TaskGraph& graph, const Cluster& cluster,
                                                 DeviceIndex master);

// Returns `graph` with a transfer from the master to each device that has unannounced tasks, which
// then depend on it; `graph` itself if no device has any. The transfers come first and wait for the
// step's submission only, so an announcement may travel while the step before it is computed. They
// have no buffers, one row, and as many columns as announcement_bytes has elements, so the result
// serves later batches of its structure only if they have the same number of cache operations.
[[nodiscard]] TaskGraph announced(TaskGraph graph, const Cluster& cluster, DeviceIndex master);
// Returns whether announced() has added transfers.
[[nodiscard]] bool announces(const TaskGraph& graph);
// Returns whether `task` is one of them.
[[nodiscard]] bool is_announcement(const Task& task);

}  // namespace tandem::model
