#pragma once

// The star: every worker sends its term to the master, which adds and sends the sum back.

#include <span>

#include "model/task_graph.hpp"

namespace tandem::planner {

struct Participant {
  model::DeviceIndex device = 0;
  bool contributes = true;      // its `partial` holds a term of the sum
  bool receives = true;         // needs the sum in its `partial` (the master always gets it)
  model::TaskIndex ready = -1;  // in: the task that made its term, -1: none; out: see below
};

struct StarSum {
  model::DeviceIndex master = 0;
  std::int32_t layer = -1;  // copied to the tasks
  model::Range rows;        // of the batch
  model::Range columns;     // of `partial`
};

// Appends the sum of the contributors' `partial` to `graph`, leaving it in the master's `partial`
// and in that of every participant that receives. Each participant's `ready` becomes the task that
// work on the sum depends on; it is unchanged for those that do not get it. With nobody but the
// master receiving this is a reduce, else an all-reduce.
//
// Steps, for P participants in their order, the master's own term first:
//   1. worker k: transfer partial -> the master's receive slot k (k counts workers from 0)
//   2. master:   partial += receive slot k, in order of k, so that the sum does not depend on the
//      order of arrival
//   3. master:   transfer partial -> partial of worker k
// If the master has no term of its own, the first worker's goes straight to its `partial`.
//
// On the wire: rows * columns * 4 bytes, C + R times (C contributing, R receiving workers).
// Time with equal links of latency l (whole route) and bandwidth B, terms of S bytes ready at once,
// additions free:
//   T = 2 l + 2 S / B                nothing shared:    Proposition 2 of TPI-LLM
//   T = 2 l + (C + R) S / B          all routes share the master's access link of bandwidth B
// Throws logic_error if the master is no participant or nobody contributes.
void star_sum(model::TaskGraph& graph, const StarSum& sum, std::span<Participant> participants);

}  // namespace tandem::planner
