#pragma once

// Galaxy's testbed (Ye et al., INFOCOM 2024, section IV-A), for reproducing its tables: Jetson
// Nanos on one switch, single passes over a prompt, and the constant that the paper does not state.

#include <optional>
#include <string>
#include <vector>

#include "model/base/csv.hpp"
#include "model/cluster/cluster.hpp"
#include "model/transformer/transformer.hpp"
#include "study/experiment/experiment.hpp"

namespace tandem::study {

// Its GB are decimal: Table I has 0.68 GB for the 335e6 parameters of BERT-large in 2 bytes.
inline constexpr double kGalaxyGB = 1e9;
// Average rows of its requests.
inline constexpr std::int64_t kGalaxyRows = 284;

struct GalaxyTestbed {
  double flops_per_s = 0.0;  // of a Nano-M, at 825 MHz; others in proportion to their clock
  // Returns the devices of `environment` (A to F) with their budgets, on links of so many Mbps.
  [[nodiscard]] model::Cluster cluster(const Scenarios& scenarios, const std::string& environment,
                                       double mbps) const;
};

// Calibrates the Nano-M's rate by the latency of BERT-large in Table I, for 30 rows alone.
[[nodiscard]] GalaxyTestbed calibrated_galaxy(const Scenarios& scenarios);
// Returns "compute: 7.5 Gflop/s ...", for remarks.
[[nodiscard]] std::string galaxy_remark(const GalaxyTestbed& testbed);

// Returns a model in half precision, as in the paper.
[[nodiscard]] model::Transformer galaxy_model(const Scenarios& scenarios, const std::string& name);

enum class GalaxySystem { galaxy, megatron, sequence, local };

// Returns the seconds of one pass over `rows`, by SimGrid. Galaxy: Algorithm 1, ring, one tile a
// device; others: equal shares, ring. Nothing if Algorithm 1 finds no split; memory is otherwise
// ignored. `copy_s_per_byte`: what each end of a message takes to copy it, on its processor.
[[nodiscard]] std::optional<double> pass_seconds(const model::Cluster& cluster,
                                                 const model::Transformer& transformer,
                                                 GalaxySystem system, std::int64_t rows,
                                                 double copy_s_per_byte = 0.0);

// Returns whether it runs out of memory by the paper's rule (equation 5): weights of layers by
// share, which galaxy may split freely; a whole copy of the model for strategies that split
// nothing.
[[nodiscard]] bool runs_out(const model::Cluster& cluster, const model::Transformer& transformer,
                            GalaxySystem system);

// Returns the speed-up of Galaxy over `other`, or that either runs out of memory; `judged`: whether
// memory counts.
[[nodiscard]] Reading speed_up(const model::Cluster& cluster, const model::Transformer& transformer,
                               GalaxySystem other, bool judged, double copy_s_per_byte = 0.0);

}  // namespace tandem::study
