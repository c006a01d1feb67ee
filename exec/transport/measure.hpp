#pragma once

#include "model/device_profile.hpp"

namespace tandem::exec {

// What one message costs beyond its link on this machine: seconds from the call of send to the
// return of receive, over encrypted loopback between two threads, the receiver woken from sleep.
// overhead_s of an empty payload, the median; seconds_per_byte beyond it, from the lower decile of
// both sizes. Takes about half a second.
[[nodiscard]] model::KindRate measure_message_cost();

}  // namespace tandem::exec
