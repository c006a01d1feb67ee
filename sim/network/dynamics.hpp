#pragma once

// Changes over time and random effects in a run on SimGrid, in addition to contention. Private to
// sim/.

#include <cstdint>
#include <vector>

#include "model/cluster/cluster.hpp"

namespace tandem::sim {

// Returns the end of work that takes `duration` seconds at full speed and begins at `start`, with
// the speed given by `changes` (ascending; full before the first): the t with integral of the
// factor over [start, t] = duration.
[[nodiscard]] double end_of_work(const std::vector<model::SpeedChange>& changes, double start,
                                 double duration);

// Returns the latency of `route` for a message whose last byte leaves at `time`: the sum over its
// links, each after its last change up to then.
[[nodiscard]] double latency_at(const model::Cluster& cluster, const model::Route& route,
                                double time);

// Returns the additional delay, beyond bytes and latency, of the message at position `index` of the
// channel from `from` to `to`:
//   jitter  for each pass of a link, exponential with that link's mean
//   loss    with probability 1 - (1 - p)^n, for n segments of 1448 bytes, RTO (1 + 2 + ... + 2^k)
//           p = 1 - product over passes of (1 - loss); k further losses, each with probability p
//           RTO = 200 ms + twice the route's latency
// A lost segment is sent again when its timer expires, and the timer doubles each time (RFC 6298,
// 5.4 and 5.5; Linux: smoothed round trip + at least TCP_RTO_MIN = 200 ms). Fast retransmission
// (RFC 5681, 3.2), which needs three segments behind the lost one, is not modelled: messages of
// decoding are short, so the result errs to the slow side. Retransmissions use no bandwidth. Equal
// seeds, channels and indices draw equal numbers, whatever else happens. 0 without jitter and loss.
[[nodiscard]] double extra_delay(const model::Cluster& cluster, model::DeviceIndex from,
                                 model::DeviceIndex to, double bytes, std::uint64_t seed,
                                 std::uint64_t index);

}  // namespace tandem::sim
