#pragma once

// How much of a run's communication its computing hides.

#include <optional>

#include "model/trace.hpp"

namespace tandem::model {

// Sums over devices. A device communicates while a message to it or from it is on its way, from
// when a channel takes the message until it is done at the receiver; of that, hidden is the time in
// which the device's cpu lane is busy as well. Several messages at once count once.
struct Communication {
  double total_s = 0.0;
  double hidden_s = 0.0;
  [[nodiscard]] double hidden_fraction() const { return hidden_s / total_s; }
};

// Of a timeline that holds every span; absent where nothing is sent.
[[nodiscard]] std::optional<Communication> communication_of(const Trace& trace);

}  // namespace tandem::model
