#pragma once

// The recurrence against SimGrid: random schedules, task by task.

#include <cstdint>
#include <string>
#include <vector>

#include "study/steady_state/memory_schedule.hpp"

namespace tandem::study {

struct SimulatedDraw {
  std::string text{};
  std::string network{};    // "apart", "shared"
  std::int64_t starts = 0;  // of block computations, compared
  double end_ticks = 0.0;   // the recurrence's start of the last one
  double simulated_end_ticks = 0.0;
  double difference = 0.0;  // relative, the largest of all starts
};

// Tolerance between SimGrid and the recurrence without contention.
inline constexpr double kSimulationTolerance = 1e-9;

struct Simulations {
  std::vector<SimulatedDraw> apart;  // without contention: equal to kSimulationTolerance
  std::vector<SimulatedDraw>
      shared;                  // some of them again, with all-reduces over one half-duplex link
  double worst = 0.0;          // difference, apart
  std::int64_t different = 0;  // apart, beyond the tolerance
  std::int64_t contended = 0;  // shared, beyond the tolerance
};

// Simulates `draws` schedules of up to four unequal devices, windows, rules, retention, by SimGrid.
[[nodiscard]] Simulations run_simulations(std::int64_t draws, std::uint64_t seed);

// Returns the start of each block's computation on SimGrid, in ticks: [token][device][block].
[[nodiscard]] std::vector<double> simulated_starts(const MemorySchedule& schedule,
                                                   std::size_t tokens, bool shared_link);

}  // namespace tandem::study
