#pragma once

// Whole layers on a chain of devices whose ring has the highest rate
// (model/predict/pipeline_law.hpp): the number of layers of each device, and the order of devices.
// Pure numbers in and out.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::planner {

// A device's times in seconds for one token, or for another unit that circulates.
struct ChainDevice {
  double fixed_s = 0.0;   // whatever its layers: copies; on the first device also the ends
  double layer_s = 0.0;   // a layer; layers are uniform
  std::int64_t most = 0;  // layers that fit its memory
};

// A message from one device to another.
struct ChainMessage {
  double channel_s = 0.0;  // of its channel: overhead and bytes
  double latency_s = 0.0;
};

struct ChainProblem {
  std::int64_t layers = 0;
  std::int64_t samples = 1;                           // M, in circulation
  std::vector<ChainDevice> devices{};                 // the first one begins and ends each round
  std::vector<std::vector<ChainMessage>> messages{};  // [from][to]
};

struct ChainSplit {
  std::vector<std::int64_t> layers{};  // by device, at least one each
  std::vector<std::size_t> order{};    // of devices, starting with the first one
  // The law: T = max( R, M B ) / M, R the sum of all times, B the largest of a device or channel.
  double period_s = 0.0;
  // Lower bound over all splits of the layers, whole or not, and all orders.
  double bound_s = 0.0;
  bool exact = false;  // no other split of whole layers and order is shorter
};

// Largest number of devices whose order is found exactly.
inline constexpr std::size_t kMostOrdered = 12;

// Returns the split with the least period and, among those, the shortest round. Nothing if the
// layers do not fit, or are fewer than the devices.
//   Layers: for each T that some device may take, minimises the total: one layer for each device,
//   the
// others to the fastest as far as T and memory allow. Exact, as layers are uniform.
//   Order: independent of layers, as it only changes messages. For each occupancy that some channel
// may reach, finds the shortest round over the other channels by dynamic programming over sets of
// devices (Held & Karp, J. SIAM 10(1), 1962): exact up to kMostOrdered devices. Beyond, starts from
// the given order and moves one device at a time while that helps: a local optimum.
[[nodiscard]] std::optional<ChainSplit> fastest_chain(const ChainProblem& problem);

}  // namespace tandem::planner
