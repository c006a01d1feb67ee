#pragma once

// A schedule as devices, costs and a task graph, for comparing any evaluator with the recurrence:
// loads on the disk lanes, windows as edges from releases, all-reduces as messages.

#include "model/predict/analytic.hpp"
#include "study/steady_state/memory_schedule.hpp"

namespace tandem::study {

// The links between the devices and the hub of every all-reduce.
enum class ScheduleNetwork {
  apart,   // a full-duplex link for each device: no contention
  shared,  // one half-duplex link for all, as Wi-Fi
};

struct ScheduleGraph {
  model::Cluster cluster;  // the schedule's devices, then the hub
  model::CostModel costs;
  model::TaskGraph graph;                    // one step: all tokens, one after another
  std::vector<model::TaskIndex> computes{};  // [token][device][block]
  [[nodiscard]] model::TaskIndex compute(std::size_t token, std::size_t device,
                                         std::size_t block) const;
  std::size_t devices = 0;
  std::size_t blocks = 0;
};

// Returns `tokens` tokens of `schedule` from a cold start. One tick is `tick` seconds of computing,
// loading and, with links apart, communicating: an all-reduce is one message from each device to
// the hub and one back, each t_ar / 2. Throws logic_error for an invalid schedule, or times beyond
// 2^30 ticks.
[[nodiscard]] ScheduleGraph to_task_graph(const MemorySchedule& schedule, std::size_t tokens,
                                          model::Seconds tick, ScheduleNetwork network);

}  // namespace tandem::study
