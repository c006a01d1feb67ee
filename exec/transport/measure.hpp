#pragma once

#include "model/device_profile.hpp"

namespace tandem::exec {

struct MessageCosts {
  model::KindRate transfer{};
  model::InlineRates inlined{};
};

// What one message costs beyond its link on this machine, over encrypted loopback between two
// threads, the receiver woken from sleep.
//   transfer: seconds from the call of send to the return of receive; overhead_s of an empty
//     payload, the median; seconds_per_byte beyond it, from the lower decile of two sizes
//   inlined: send and receive the CPU time of these calls, medians of two sizes up to
//     model::kInlineBytes; transfer what is left of the time between
// Takes about half a second.
[[nodiscard]] MessageCosts measure_message_cost();

}  // namespace tandem::exec
