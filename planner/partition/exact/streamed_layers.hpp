#pragma once

// Whole layers over devices some of whose weights stream from disks: numbers in, numbers out.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tandem::planner {

// What a layer takes of a device, in seconds of whatever is to be made short.
struct StreamingDevice {
  double layer_s = 0.0;       // computing it
  double load_s = 0.0;        // reading it from the disk, if it is not in memory
  std::int64_t resident = 0;  // layers that its memory holds for good
  std::int64_t most = 0;      // layers that it can have at all; `resident`, if it has no disk
};

// The layers, at least one for each device, of the least
//   sum over d of n_d layer_s_d + max(0, n_d - resident_d) load_s_d
// Halda's objective (prima.cpp, arXiv 2504.08791) as far as it is about cpus: what a token computes
// and what is loaded for it, of all devices one after the other. `rounds` k: n_d are multiples of
// it, as its windows are. Each term is convex in n_d, so giving the next layers to whom they cost
// least is exact, where the paper solves an integer program. Not taken: layers on GPUs, memory that
// an operating system takes back, and costs of the network, which depend on k alone.
// Nothing if k does not divide the layers, or they do not fit.
[[nodiscard]] std::optional<std::vector<std::int64_t>> halda_layers(
    std::span<const StreamingDevice> devices, std::int64_t layers, std::int64_t rounds);

// The layers, at least one for each device, of the least
//   max( sum over d of n_d layer_s_d, max over d of (n_d - resident_d) load_s_d )
// where disks read while others compute: the most that several rounds can hide. For each time that
// a disk may take, layers go to the fastest as far as it allows. Nothing if they do not fit.
[[nodiscard]] std::optional<std::vector<std::int64_t>> overlapped_layers(
    std::span<const StreamingDevice> devices, std::int64_t layers);

}  // namespace tandem::planner
