#pragma once

// Clusters that vary during a run (model::variation), and what they are without it.

#include "model/cluster/cluster.hpp"

namespace tandem::model {

// Whether chance decides anything: jitter or loss of a link.
[[nodiscard]] bool varies_by_chance(const Cluster& cluster);

// For an evaluator that knows of no variation, the analytic one. Throws Error, which names what
// varies and sends to SimGrid, if anything of `cluster` does.
void check_analytic(const Cluster& cluster);

// The cluster as if nothing varied: no jitter, loss, background traffic or change during a run.
[[nodiscard]] Cluster without_variation(const Cluster& cluster);

}  // namespace tandem::model
