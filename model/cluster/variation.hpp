#pragma once

// Variation of clusters during a run (model::variation), and its removal.

#include "model/cluster/cluster.hpp"

namespace tandem::model {

// Returns whether a link has jitter or loss.
[[nodiscard]] bool varies_by_chance(const Cluster& cluster);

// For evaluators without variation, such as the analytic one. Throws Error, naming what varies and
// recommending SimGrid, if anything of `cluster` does.
void check_analytic(const Cluster& cluster);

// Returns the cluster without jitter, loss, background traffic and changes during a run.
[[nodiscard]] Cluster without_variation(const Cluster& cluster);

}  // namespace tandem::model
