#pragma once

// The announcement of a step: what the master tells every other device before it, on the wire a
// StepBegin (exec/transport/wire.hpp). A device that waits for data of the master anyway is told in
// time, since the announcement leaves first. One that would begin a step on its own must wait for
// the announcement itself, which is then a transfer of the graph: its bytes take their time on
// links in every evaluator and in emulation.

#include <cstdint>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::model {

// Bytes of a StepBegin, frame included: a frame of 8, the step, three counts, and these.
inline constexpr std::int64_t kAnnouncementBytes = 24;
inline constexpr std::int64_t kAnnouncedSegmentBytes = 16;
inline constexpr std::int64_t kAnnouncedCacheOpBytes = 16;
inline constexpr std::int64_t kAnnouncedTokenBytes = 4;
// `tokens`: of so many rows, which only devices that embed are told.
[[nodiscard]] std::int64_t announcement_bytes(const Batch& batch, std::int64_t tokens);
// As a device is told: with the tokens of all rows if the graph has it embed.
[[nodiscard]] std::int64_t announcement_bytes(const TaskGraph& graph, DeviceIndex device);

// The tasks of `graph` that a device could begin before it has been told of the step, in order:
// they, and what is before them in their lane, wait for nothing of the master (a cpu task of it, or
// what it sends), or for what may come earlier than the announcement does. That takes the latency
// of the direct route; data takes at least the sum of the latencies of its way, and leaves later.
// Loads need no announcement: they depend on no batch and run ahead.
[[nodiscard]] std::vector<TaskIndex> unannounced(const TaskGraph& graph, const Cluster& cluster,
                                                 DeviceIndex master);

// `graph`, with a transfer from the master to each device that has unannounced tasks, on which
// these depend. The transfers come first; they wait for nothing but the step's submission, so an
// announcement may travel while the step before it is computed. They have no buffers, one row and
// as many columns as announcement_bytes has elements, so the graph then serves batches of its
// structure with as many cache operations only. The same graph if there are no such tasks.
[[nodiscard]] TaskGraph announced(TaskGraph graph, const Cluster& cluster, DeviceIndex master);
// Whether announced() has added transfers.
[[nodiscard]] bool announces(const TaskGraph& graph);
// Whether this is one of them.
[[nodiscard]] bool is_announcement(const Task& task);

}  // namespace tandem::model
