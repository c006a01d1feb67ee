#pragma once

// Whole layers in a chain of devices whose ring has the highest rate
// (model/predict/pipeline_law.hpp): how many each gets, and who follows whom. Numbers in, numbers
// out.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::planner {

// What a device of the chain takes. Seconds for one token, or for whatever goes round.
struct ChainDevice {
  double fixed_s = 0.0;   // whatever its layers: copies; of the first device also the ends
  double layer_s = 0.0;   // a layer, all being alike
  std::int64_t most = 0;  // layers that its memory holds
};

// A message from one device to another.
struct ChainMessage {
  double channel_s = 0.0;  // of its channel: overhead and bytes
  double latency_s = 0.0;
};

struct ChainProblem {
  std::int64_t layers = 0;
  std::int64_t samples = 1;                           // M: that go round
  std::vector<ChainDevice> devices{};                 // the first one begins and ends each round
  std::vector<std::vector<ChainMessage>> messages{};  // [from][to]
};

struct ChainSplit {
  std::vector<std::int64_t> layers{};  // by device, at least one each
  std::vector<std::size_t> order{};    // of devices, the first one first
  // The law: T = max( R, M B ) / M, R = sum of all, B = the most of a device or a channel.
  double period_s = 0.0;
  // No split of the layers, whole or not, and no order has a shorter one.
  double bound_s = 0.0;
  bool exact = false;  // no other split of whole layers and order has a shorter one
};

// So many devices are ordered exactly.
inline constexpr std::size_t kMostOrdered = 12;

// The split with the least period and, of those, the shortest round. Nothing if the layers do not
// fit, or are fewer than the devices.
//   Layers: for each T that some device may take, the fewest seconds in all: a layer for each, the
// others to the fastest as far as T and memory go. Exact, as layers are alike.
//   Order: apart from layers, as it only changes messages. For each time that some channel may be
// occupied, the shortest round over the other channels by dynamic programming over sets of devices
// (Held & Karp, J. SIAM 10(1), 1962): exact up to kMostOrdered devices. Beyond, from the order
// given, a device is moved elsewhere for as long as that helps, which need not end in the best.
[[nodiscard]] std::optional<ChainSplit> fastest_chain(const ChainProblem& problem);

}  // namespace tandem::planner
