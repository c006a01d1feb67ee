#pragma once

// Contiguous layers by device, for pipeline strategies.

#include <optional>
#include <span>
#include <vector>

#include "planner/partition/budget.hpp"

namespace tandem::planner {

// All heads and columns of `layers`, and of the master embedding and head.
[[nodiscard]] model::Share whole_layers(const model::Transformer& transformer, bool master,
                                        model::LayerRuns layers);

// The most layers that fit on the device beside what it holds anyway; 0 if not even that fits.
[[nodiscard]] std::int64_t most_layers(const Budget& budget, std::size_t device);
// With that window instead of the budget's.
[[nodiscard]] std::int64_t most_layers(const Budget& budget, std::size_t device, Window window);

// Shares of `counts` (layers by DeviceIndex): devices follow one another in `order`, with all heads
// and columns of their layers, `rounds` times, each with as equal a part of its layers in each
// round as whole numbers allow, the master with one in the first; the master holds embedding and
// head besides.
[[nodiscard]] std::vector<model::Share> layer_shares(const model::Transformer& transformer,
                                                     std::span<const model::DeviceIndex> order,
                                                     model::DeviceIndex master,
                                                     std::span<const std::int64_t> counts,
                                                     std::int32_t rounds = 1);

// Layers in proportion to `capacities`, none above what the device's memory holds: what one cannot
// hold goes to those with memory to spare, in proportion to their capacity, as Galaxy's Algorithm 1
// does with heads. Whole numbers by largest remainder. Sums to less than the model's layers if they
// do not fit.
[[nodiscard]] std::vector<std::int64_t> balanced_layers(const Budget& budget,
                                                        std::span<const double> capacities);

// A layer for every device, the others to the fastest as far as its memory goes, then to the next:
// the least time for one sequence, whose token passes all devices one after the other,
//   T = sum over d of layers_d / capacities_d + a constant
// Nothing if some device cannot hold a layer, or all together not the model's.
[[nodiscard]] std::optional<std::vector<std::int64_t>> fastest_layers(
    const Budget& budget, std::span<const double> capacities);

}  // namespace tandem::planner
