#pragma once

// What a message costs its channel beyond an emulated link.

#include <cstddef>

#include "model/units.hpp"

namespace tandem::exec {

// Seconds of one message: wake-ups; of messages that threads of their own send and receive, system
// calls and encryption too.
struct MessageOverhead {
  struct Line {
    double message_s = 0.0;
    double byte_s = 0.0;
    bool operator==(const Line&) const = default;
  };
  Line threads{};           // as rate[transfer] of a profile
  Line computing_thread{};  // sent and received by those that compute: InlineRates::transfer

  [[nodiscard]] model::Seconds of(std::size_t bytes, bool by_computing_thread) const;
  bool operator==(const MessageOverhead&) const = default;
};

// Of this machine now, between two threads of this process (exec/transport/measure.hpp). Takes
// about half a second.
[[nodiscard]] MessageOverhead measure_message_overhead();

}  // namespace tandem::exec
