#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>

#include "study/steady_state/layered.hpp"

namespace tandem::study {

// The windows of the draws.
inline constexpr std::array<std::int64_t, 6> kDrawnWindows{1, 2, 3, 4, 8, kUnlimited};

// Numbers that are the same on every machine for the same seed: the standard's engines are, its
// distributions are not.
class DrawNumbers {
 public:
  explicit DrawNumbers(std::uint64_t seed) : engine_(seed) {}
  // In [first, last]; the bias of the remainder is below 2^-50 for such short ranges.
  std::int64_t in(std::int64_t first, std::int64_t last) {
    return first +
           static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(last - first + 1));
  }
  model::ReleaseRule rule() {
    return in(0, 1) == 0 ? model::ReleaseRule::early : model::ReleaseRule::late;
  }
  std::int64_t window() { return kDrawnWindows.at(static_cast<std::size_t>(in(0, 5))); }

 private:
  std::mt19937_64 engine_;
};

[[nodiscard]] inline std::string window_text(std::int64_t window) {
  return window == kUnlimited ? "unlimited" : std::to_string(window);
}
[[nodiscard]] inline std::string rule_text(model::ReleaseRule rule) {
  return rule == model::ReleaseRule::early ? "early" : "late";
}

}  // namespace tandem::study
