#pragma once

// Factors by which a device's times may be off, drawn at random.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/predict/deviation.hpp"

namespace tandem::model {

// Draws of all devices' factors:
//   factor(device, kind) = exp(systematic z_p + drift z_d + kind z_pk)
//   z      independent standard normal numbers: of a profile, of a device, of a profile's kind
// by Latin hypercube sampling (McKay, Beckman and Conover, Technometrics 21(2), 1979): of each z,
// kCount - 1 equally probable intervals have one draw each, so that few draws have its quantiles.
// Draw 0 is that without errors: its factors are 1. Equal arguments give equal draws.
class FactorDraws {
 public:
  static constexpr std::size_t kCount = 72;  // with draw 0

  // `profiles` names the profile of each device: devices with equal names share its errors.
  FactorDraws(std::span<const DeviceDeviation> deviations, std::span<const std::string> profiles,
              std::uint64_t seed);
  // kCount factors of tasks of `kind`. Throws logic_error for a device that is none.
  [[nodiscard]] std::span<const double> of(DeviceIndex device, TaskKind kind) const;

 private:
  std::vector<double> factors_;  // by device, kind, draw
};

}  // namespace tandem::model
