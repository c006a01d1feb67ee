#pragma once

// How much of a run's communication its computing hides.

#include <optional>

#include "model/base/range.hpp"
#include "model/report/trace.hpp"

namespace tandem::model {

// Sums over devices. A device communicates while a message to it or from it is on its way, from
// when a channel takes the message until it is done at the receiver; of that, hidden is the time in
// which the device's cpu lane is busy as well, and the rest is exposed: the device has nothing to
// do. Several messages at once count once (docs/decisions/0061).
struct Communication {
  double total_s = 0.0;
  double hidden_s = 0.0;
  [[nodiscard]] double hidden_fraction() const { return hidden_s / total_s; }
  [[nodiscard]] double exposed_s() const { return total_s - hidden_s; }
};

// Of a timeline that holds every span; absent where nothing is sent.
[[nodiscard]] std::optional<Communication> communication_of(const Trace& trace);
// Of the messages of `steps` alone, which the computing of any step hides. A message of one step
// and one of another, on their way at once, count once in the sum of all steps, but in each theirs.
[[nodiscard]] std::optional<Communication> communication_of(const Trace& trace, Range steps);

}  // namespace tandem::model
