#pragma once

#include <cstdint>

namespace tandem::exec {

struct WeightedToken {
  std::int32_t id = 0;
  double weight = 0.0;  // exp((logit - largest) / temperature)
};

}  // namespace tandem::exec
