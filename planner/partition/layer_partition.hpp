#pragma once

// Contiguous runs of layers by device, for pipeline strategies.

#include <optional>
#include <span>
#include <vector>

#include "planner/partition/budget.hpp"

namespace tandem::planner {

// Returns a share of all heads and columns of `layers`, and on the master embedding and head.
[[nodiscard]] model::Share whole_layers(const model::Transformer& transformer, bool master,
                                        model::LayerRuns layers);

// Returns the most layers that fit on the device beside its other data; 0 if not even those fit.
[[nodiscard]] std::int64_t most_layers(const Budget& budget, std::size_t device);
// The same with that window instead of the budget's.
[[nodiscard]] std::int64_t most_layers(const Budget& budget, std::size_t device, Window window);

// Returns the shares for `counts` (layers by DeviceIndex): devices follow one another in `order`,
// with all heads and columns of their layers, `rounds` times. Each device's layers are split over
// the rounds as evenly as possible, the master with at least one in the first. The master also
// holds embedding and head.
[[nodiscard]] std::vector<model::Share> layer_shares(const model::Transformer& transformer,
                                                     std::span<const model::DeviceIndex> order,
                                                     model::DeviceIndex master,
                                                     std::span<const std::int64_t> counts,
                                                     std::int32_t rounds = 1);

// Returns layers in proportion to `capacities`, within each device's memory: the excess goes to
// devices with free memory in proportion to their capacity, as in Galaxy's Algorithm 1 for heads.
// Whole by largest remainder. Sums to less than the model's layers if they do not fit.
[[nodiscard]] std::vector<std::int64_t> balanced_layers(const Budget& budget,
                                                        std::span<const double> capacities);

// Returns one layer for every device and the others to the fastest as far as its memory allows,
// then to the next: the least time of one sequence, whose token passes all devices in turn,
//   T = sum over d of layers_d / capacities_d + a constant
// Nothing if some device cannot hold a layer, or all together cannot hold the model's.
[[nodiscard]] std::optional<std::vector<std::int64_t>> fastest_layers(
    const Budget& budget, std::span<const double> capacities);

}  // namespace tandem::planner
