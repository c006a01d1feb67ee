#pragma once

// The door of a worker: a thread that answers whoever comes, at once, whatever the worker is doing.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/transport/listener.hpp"

namespace tandem::exec {

struct ReceptionTimes {
  // How long a master that comes during a run is kept waiting before it is told that the worker is
  // busy: that run may be over in truth, and not be known to be so yet.
  std::chrono::milliseconds doubt{250};
  // How long it is kept waiting while the run is known to end.
  std::chrono::milliseconds ending{4'000};
};

// Lets one master in at a time; the others are told whose run it is. Of the run that is served,
// channels are let in. Everybody else is refused. Thread-safe.
class Reception {
 public:
  explicit Reception(Listener listener, ReceptionTimes times = {});
  ~Reception();
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  // Returns the next master, welcomed: its run is served until leave(). Returns nothing at the
  // deadline. Throws Error(reason) when cancelled.
  [[nodiscard]] std::optional<Incoming> next_master(const Patience& patience);
  // Returns the next channel of the run that is served, welcomed, as next_master() does.
  [[nodiscard]] std::optional<Incoming> next_channel(const Patience& patience);
  // `over` says whether the run has ended or failed, so that the next master may wait a moment. Any
  // thread calls it, until leave() returns.
  void watch(std::function<bool()> over);
  // Says that the run that was served is over.
  void leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::exec
