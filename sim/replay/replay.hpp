#pragma once

// Task graphs on SimGrid: the judge where links are contended.

#include <cstdint>

#include "model/predict/analytic.hpp"
#include "sim/network/network_settings.hpp"

namespace tandem::sim {

// Replays `steps` on SimGrid and records every span into `recorder`. Lanes, channels and times as
// model/graph/task_graph.hpp defines them; links are shared max-min fairly among the messages on
// them. Equal to evaluate_analytic where no two messages share a link. Runs the engine in a forked
// child (SimGrid allows one engine a process), so it may be called any number of times; one at a
// time. Throws Error if the child dies, with what it said.
void replay(const model::Cluster& cluster, const model::CostModel& costs, model::Steps& steps,
            model::RunRecorder& recorder);

// The same for a run that `scheduler` drives: it is asked for each step when the engine's clock is
// at the outcome of the one before. The steps are submitted to `recorder`, in this process;
// scheduler and graphs are used in the child, so what they have learnt is not known here. `seed` as
// in replay_seeded.
void replay_scheduled(const model::Cluster& cluster, const model::CostModel& costs,
                      model::Scheduler& scheduler, model::GraphSource& graphs,
                      model::RunRecorder& recorder, std::uint64_t seed = 1);

// Jitter and loss as `seed` draws them; replay has seed 1. Every message's draws depend on the
// seed, its channel and its position in it alone. Speeds, bandwidths and latencies change when the
// cluster says, and background flows compete on their links.
void replay_seeded(const model::Cluster& cluster, const model::CostModel& costs,
                   model::Steps& steps, model::RunRecorder& recorder, std::uint64_t seed);

// The same metrics to 1e-9, from as few simulated steps as show what the others are
// (model/predict/step_extrapolation.hpp; what is shown of links is the order in which messages
// begin and end). Records no spans. As replay where a message is in flight between two steps, or
// where anything varies (model::variation).
void replay_extrapolated(const model::Cluster& cluster, const model::CostModel& costs,
                         model::Steps& steps, model::RunRecorder& recorder);

// What replay, replay_extrapolated and replay_scheduled (with seed 1) do, without SimGrid and in
// this process, at a small part of the cost: tandem itself shares links max-min fairly
// (sim/network/fair_flows.hpp), which is the same to 1e-9. For searches: what is said of the plan
// that they find is SimGrid's. On SimGrid where anything varies (model::variation). The scheduler
// is used here.
void evaluate_fair(const model::Cluster& cluster, const model::CostModel& costs,
                   model::Steps& steps, model::RunRecorder& recorder);
void extend_fair(const model::Cluster& cluster, const model::CostModel& costs, model::Steps& steps,
                 model::RunRecorder& recorder);
void evaluate_fair_scheduled(const model::Cluster& cluster, const model::CostModel& costs,
                             model::Scheduler& scheduler, model::GraphSource& graphs,
                             model::RunRecorder& recorder);

}  // namespace tandem::sim
