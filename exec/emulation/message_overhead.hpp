#pragma once

// What a message costs its channel beyond an emulated link, and its ends.

#include <cstddef>

#include "model/base/units.hpp"
#include "model/graph/task_graph.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// Seconds of one message. Of its channel: wake-ups; of messages that threads of their own send and
// receive, system calls and encryption too. Of the computing threads: those of small messages.
struct MessageOverhead {
  struct Line {
    double message_s = 0.0;
    double byte_s = 0.0;
    bool operator==(const Line&) const = default;
  };
  Line threads{};           // as rate[transfer] of a profile
  Line computing_thread{};  // sent and received by those that compute: InlineRates::transfer
  Line send{};              // CPU time of the computing thread that sends: InlineRates::send
  Line receive{};           // and of the one that receives

  [[nodiscard]] model::Seconds of(std::size_t bytes, bool by_computing_thread) const;
  // Of a capture: sending; of a delivery: receiving.
  [[nodiscard]] model::Seconds cpu(model::TaskKind copy, model::Bytes payload) const;
  bool operator==(const MessageOverhead&) const = default;
};

// Of this machine now, between two threads of this process that read a model's weights between two
// messages (exec/transport/measure.hpp, which says how long that takes).
[[nodiscard]] MessageOverhead measure_message_overhead(const model::Transformer& transformer);

}  // namespace tandem::exec
