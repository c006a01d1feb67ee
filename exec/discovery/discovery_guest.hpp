#pragma once

// A worker's side of a session that measures machines and links instead of running a plan.

#include <chrono>
#include <memory>
#include <optional>

#include "exec/discovery/kept_profile.hpp"
#include "exec/transport/cancellation.hpp"
#include "exec/transport/control.hpp"
#include "exec/transport/key.hpp"
#include "exec/transport/reception.hpp"

namespace tandem::exec {

struct GuestOptions {
  WorkerMachine machine;
  std::optional<Key> key;
  Hello hello{};  // of the master
  std::chrono::milliseconds connect{5'000};
};

// Answers an Inquiry that `control` has received, then orders until the master's Goodbye:
//   ProfileOrder: measures this machine, or takes the profile it has kept
//   LinkOrder: opens channels with one peer, by `reception` or by connecting to the address that
//     the master names, with the session's key and identity
//   ProbeOrder: measures over these channels
// A link or a probe that fails is a fault in its answer; the session goes on. Throws Error if the
// session ends otherwise, or the master orders what no master does. `activity` is shown in
// heartbeats; `cancellation` ends all waits.
void serve_discovery(Control& control, Activity& activity, Reception& reception,
                     const std::shared_ptr<Cancellation>& cancellation,
                     const GuestOptions& options);

}  // namespace tandem::exec
