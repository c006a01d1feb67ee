#pragma once

// What each evaluator can be asked.

#include "model/cluster.hpp"

namespace tandem::cli {

// For the analytic evaluator. Throws Error, which names what and sends to SimGrid, if anything of
// `cluster` varies (model::variation).
void check_analytic(const model::Cluster& cluster);

}  // namespace tandem::cli
