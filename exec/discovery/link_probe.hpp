#pragma once

// What a link is measured with, at both of its ends: the messages of a run, over the channels of a
// run (exec/transport).

#include <chrono>
#include <cstdint>

#include "exec/transport/transport.hpp"
#include "model/base/units.hpp"

namespace tandem::exec {

// A message of kRoundTripBytes there, and one back. Before each both ends read `walked` bytes, and
// the receiver is asleep, as when the profile's message costs were measured
// (exec/transport/measure.hpp): what is more than those is the link's.
inline constexpr std::size_t kRoundTripBytes = 64;

// Returns seconds from the call of send to the return of receive, there and back, without what the
// peer spent between, halved; the median of some rounds, about `time` long.
// Throws Error if the peer is gone, or cancelled.
[[nodiscard]] model::Seconds ask_round_trips(Transport& transport, model::DeviceIndex peer,
                                             model::Bytes walked, std::chrono::milliseconds time);
// The other end of ask_round_trips(). Returns when the peer has said that it was the last.
void answer_round_trips(Transport& transport, model::DeviceIndex peer, model::Bytes walked);

// Sends to `peer` without a pause for `time`.
void send_stream(Transport& transport, model::DeviceIndex peer, std::chrono::milliseconds time);
// Receives what send_stream() sends. Returns the bytes a second within the second half of `time`
// from now on, of a message that arrives in part within it that part.
[[nodiscard]] model::BytesPerSecond receive_stream(Transport& transport, model::DeviceIndex peer,
                                                   std::chrono::milliseconds time);

}  // namespace tandem::exec
