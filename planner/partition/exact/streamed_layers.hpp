#pragma once

// Whole layers over devices that may stream weights from disks: pure numbers in and out.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tandem::planner {

// A device's times for a layer, in seconds of the objective.
struct StreamingDevice {
  double layer_s = 0.0;       // computing it
  double load_s = 0.0;        // reading it from the disk, if it is not in memory
  std::int64_t resident = 0;  // layers that its memory holds permanently
  std::int64_t most = 0;      // upper limit of its layers; `resident` if it has no disk
};

// Returns the layers, at least one for each device, that minimise
//   sum over d of n_d layer_s_d + max(0, n_d - resident_d) load_s_d
// Halda's objective (prima.cpp, arXiv 2504.08791) for cpus: a token's compute and loads, on all
// devices one after the other. `rounds` k: the n_d are multiples of k, as its windows are. Each
// term is convex in n_d, so assigning the next layers where they cost least is exact; the paper
// solves an integer program. Not modelled: layers on GPUs, memory reclaimed by the operating
// system, and network costs, which depend on k alone. Nothing if k does not divide the layers, or
// they do not fit.
[[nodiscard]] std::optional<std::vector<std::int64_t>> halda_layers(
    std::span<const StreamingDevice> devices, std::int64_t layers, std::int64_t rounds);

// Returns the layers, at least one for each device, that minimise
//   max( sum over d of n_d layer_s_d, max over d of (n_d - resident_d) load_s_d )
// where disks read while others compute: the most that several rounds can hide. For each time that
// a disk may take, layers go to the fastest devices as far as it allows. Nothing if they do not
// fit.
[[nodiscard]] std::optional<std::vector<std::int64_t>> overlapped_layers(
    std::span<const StreamingDevice> devices, std::int64_t layers);

}  // namespace tandem::planner
