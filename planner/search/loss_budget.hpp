#pragma once

// A bound on what a plan loses by messages and a cache in fewer bits (docs/decisions/0107).

#include <optional>
#include <utility>
#include <vector>

#include "model/transformer/cache_format.hpp"
#include "model/transformer/wire_format.hpp"

namespace tandem::planner {

// The measured losses of a model's formats, in bits per byte of text more than with messages and
// cache in f32. Each is above 0.
struct FormatPrices {
  std::vector<std::pair<model::WireFormat, double>> messages{};
  std::vector<std::pair<model::CacheFormat, double>> cache{};

  // Returns the loss; 0: f32; absent: not measured.
  [[nodiscard]] std::optional<double> of(model::WireFormat format) const;
  [[nodiscard]] std::optional<double> of(model::CacheFormat format) const;
};

// Returns whether a sum of losses is within a bound; less than rounding does not count.
[[nodiscard]] constexpr bool is_within(double loss, double most) {
  constexpr double kRounding = 1e-12;
  return loss <= most + kRounding;
}

struct LossBudget {
  double most = 0.0;  // bits per byte, of messages and cache together
  FormatPrices prices{};
};

}  // namespace tandem::planner
