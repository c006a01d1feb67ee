#pragma once

// Replays of task graphs on SimGrid: the reference where links are contended.

#include <cstdint>

#include "model/predict/analytic.hpp"
#include "sim/network/network_settings.hpp"

namespace tandem::sim {

// Replays `steps` on SimGrid and records every span into `recorder`. Lanes, channels and times are
// defined in model/graph/task_graph.hpp; messages share links max-min fairly. Equal to
// evaluate_analytic if no two messages share a link. Runs the engine in a forked child (SimGrid
// allows one engine a process), so it may be called any number of times, one at a time. Throws
// Error if the child dies, with its output.
void replay(const model::Cluster& cluster, const model::CostModel& costs, model::Steps& steps,
            model::RunRecorder& recorder);

// The same for a run that `scheduler` drives: it is called for each step when the engine's clock is
// at the outcome of the one before. The steps are submitted to `recorder` in this process.
// Scheduler and graphs are used in the child, so their state here does not change. `seed` as in
// replay_seeded.
void replay_scheduled(const model::Cluster& cluster, const model::CostModel& costs,
                      model::Scheduler& scheduler, model::GraphSource& graphs,
                      model::RunRecorder& recorder, std::uint64_t seed = 1);

// The same with jitter and loss drawn from `seed`; replay has seed 1. A message's draws depend only
// on the seed, its channel and its position in it. Speeds, bandwidths and latencies change as the
// cluster states, and background flows compete on their links.
void replay_seeded(const model::Cluster& cluster, const model::CostModel& costs,
                   model::Steps& steps, model::RunRecorder& recorder, std::uint64_t seed);

// The same metrics to 1e-9, from as few simulated steps as determine the others
// (model/predict/step_extrapolation.hpp; on links the criterion is the order in which messages
// begin and end). Records no spans. Same as replay if a message is in flight between two steps, or
// if anything varies (model::variation).
void replay_extrapolated(const model::Cluster& cluster, const model::CostModel& costs,
                         model::Steps& steps, model::RunRecorder& recorder);

// The same as replay, replay_extrapolated and replay_scheduled (with seed 1) without SimGrid, in
// this process, at a small part of the cost: tandem's own max-min sharing of links
// (sim/network/fair_flows.hpp), equal to 1e-9. For searches; the figures of the resulting plan are
// SimGrid's. Uses SimGrid if anything varies (model::variation). The scheduler is used in this
// process.
void evaluate_fair(const model::Cluster& cluster, const model::CostModel& costs,
                   model::Steps& steps, model::RunRecorder& recorder);
void extend_fair(const model::Cluster& cluster, const model::CostModel& costs, model::Steps& steps,
                 model::RunRecorder& recorder);
void evaluate_fair_scheduled(const model::Cluster& cluster, const model::CostModel& costs,
                             model::Scheduler& scheduler, model::GraphSource& graphs,
                             model::RunRecorder& recorder);

}  // namespace tandem::sim
