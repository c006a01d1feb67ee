#pragma once

// The rate of a recurrent pipeline: samples go round a ring of stages, each in steps of its own.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::model {

// What one token takes of a stage and of its message to the next one. Seconds.
struct RingStage {
  std::string name{};       // of its device
  double compute_s = 0.0;   // t: its computing thread, copies of messages included; of the first
                            // stage both the begin of a round and, after it, head and sampling
  double overhead_s = 0.0;  // o: of its message, which occupies the channel before the bytes do
  double wire_s = 0.0;      // the message's bytes / the route's bandwidth
  double latency_s = 0.0;   // of the route
  // c: until the message is there. 0 of a stage that is alone.
  [[nodiscard]] double message_s() const { return overhead_s + wire_s + latency_s; }
};

// What all tokens must pass one after the other, and how long each occupies it.
struct RingBottleneck {
  std::string name{};
  double seconds = 0.0;
};

struct Ring {
  std::vector<RingStage> stages{};  // in the order in which a token visits them
  RingBottleneck other{};  // what else messages of a round must take turns at: of all links
                           // the one with the most bytes / bandwidth
  double delay_s = 0.0;    // of a lone round in addition (stages informed of a step late)
};

// How long one sample alone takes for a token, which visits all stages:
//   R = sum over i of (t_i + c_i) + delay
[[nodiscard]] double round_time(const Ring& ring);

//   B = max( max_i t_i,  max_i (o_i + bytes_i / bandwidth_i),  max over links of bytes / bandwidth
//   )
[[nodiscard]] RingBottleneck ring_bottleneck(const Ring& ring);

// Seconds from token to token, of all samples together, in the steady state of `samples` >= 1:
//   T(M) = max( R, M B ) / M
// M tokens a round, unless something is always busy. Exact where no two messages share a link, up
// to what several messages of one link do to each other, which this counts as if they only had to
// take turns: a lower bound then. Ignores that attention grows with the context.
[[nodiscard]] double token_period(const Ring& ring, std::int64_t samples);

// The least M with which more samples do not raise the rate: ceil(R / B), rounding forgiven.
[[nodiscard]] std::int64_t least_samples(const Ring& ring);

}  // namespace tandem::model
