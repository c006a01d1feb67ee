#pragma once

#include "model/base/units.hpp"
#include "model/predict/device_profile.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// As rates of a profile (model/predict/device_profile.hpp).
struct MessageCosts {
  model::KindRate transfer{};
  model::InlineRates inlined{};
};

// Measures what one message costs beyond its link on this machine, over encrypted loopback between
// two threads. Before each message both read `walked` bytes, as a device reads weights between two
// messages: a thread that comes from computing finds neither the code nor the data of messages in
// its caches (docs/decisions/0016).
//   transfer: seconds from the call of send to the return of receive, the receiver woken from
//     sleep; overhead_s of an empty payload, the median; seconds_per_byte beyond it, from the lower
//     decile of two sizes
//   inlined: send and receive the CPU time of these calls where the receiver was computing while
//     the message came, as waking another thread of this machine is no device's work: means of two
//     sizes up to model::kInlineBytes without the greatest twentieth; transfer what is left of the
//     median time between where it was asleep
// Takes about half a second, and the time of reading `walked` bytes 1100 times.
[[nodiscard]] MessageCosts measure_message_cost(model::Bytes walked);

// How many bytes a device that computes reads between two messages: the weights of half a layer, at
// most 16 MiB, which no second-level cache holds.
[[nodiscard]] model::Bytes weights_between_messages(const model::Transformer& transformer);

}  // namespace tandem::exec
