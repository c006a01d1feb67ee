#pragma once

#include <string>
#include <vector>

#include "advice/fidelity/recording.hpp"

namespace tandem::test {

// A recording of one quantity, `ttft`: predicted, and what runs measured. `drift` of its sitting.
inline study::Recording recording_of(const std::string& name, double predicted,
                                     std::vector<double> measured, double drift = 0.0) {
  study::Recording recording{.configuration = name, .way = "emulated"};
  recording.levels = {{"strategy", "tensor"}, {"devices", "2"}};
  recording.environment = {{"recorder", "test"}, {"date", "2026-11-27T00:00:00Z"}};
  recording.reference = {.cpu_s = {1e-4, 1e-4 * (1.0 + drift)}, .wall_s = {0.04, 0.04}};
  recording.quantities = {{.scope = "run",
                           .name = "",
                           .metric = "ttft",
                           .unit = "s",
                           .predicted = predicted,
                           .measured = std::move(measured)}};
  recording.profile = "{}";
  recording.plan = "{}";
  return recording;
}

inline study::Quantity part_of(const std::string& scope, const std::string& name, double predicted,
                               double measured) {
  return {.scope = scope,
          .name = name,
          .metric = "total",
          .unit = "s",
          .predicted = predicted,
          .measured = {measured}};
}

}  // namespace tandem::test
