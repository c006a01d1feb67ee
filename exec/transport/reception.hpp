#pragma once

// The door of a worker: a thread that answers whoever comes, at once, whatever the worker is doing.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/transport/listener.hpp"

namespace tandem::exec {

struct ReceptionTimes {
  // A run that is over in truth may not be known to be so yet: a master that comes meanwhile is
  // kept waiting that long before it is told that the worker is busy.
  std::chrono::milliseconds doubt{250};
  std::chrono::milliseconds ending{4'000};  // the same while a run is known to end
};

// One master is served at a time; the others are told whose run it is. Of the run that is served,
// channels are taken in. Everybody else is refused. Thread-safe.
class Reception {
 public:
  explicit Reception(Listener listener, ReceptionTimes times = {});
  ~Reception();
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  // The next master, welcomed: its run is served until leave(). Nothing at the deadline.
  // Throws Error(reason) when cancelled.
  [[nodiscard]] std::optional<Incoming> next_master(const Patience& patience);
  // The next channel of the run that is served, welcomed.
  [[nodiscard]] std::optional<Incoming> next_channel(const Patience& patience);
  // `over` says whether the run has ended or failed, so that the next master may wait a moment. Any
  // thread calls it, until leave() returns.
  void watch(std::function<bool()> over);
  // The run that was served is over.
  void leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::exec
