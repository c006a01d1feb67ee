#pragma once

// The memory scheduler's recurrence: the reference for all closed forms.
//
//   load_start(j) = max(load_end(j - 1), release(j - w))     release(i) = -inf for i < 0
//   load_end(j)   = load_start(j) + tau(j)
//   start(b)      = max(arrive(b - 1), load_end(b))          stall(b) = start(b) - arrive(b - 1)
//   arrive(b)     = max over devices (start(b) + t(b)) + t_ar(b)
//   release(b)    = start(b) + t(b)  (early)  or  arrive(b)  (late)
//
// b counts blocks over all tokens, j a device's streamed blocks; every device has its own t, tau, w
// and loader, and `arrive` couples them. The loader runs across token boundaries.

#include <cstdint>
#include <functional>
#include <vector>

#include "study/steady_state/memory_schedule.hpp"

namespace tandem::study {

// The contents of memory at the start of the first token. Retained blocks are always there, as in
// (9) and (10) of Proposition 6, planner and executor: they are never loaded.
enum class Start : std::uint8_t {
  cold,  // nothing else
  warm,  // and the first blocks up to the window (at most one token's)
};

// One block on one device.
struct BlockEvent {
  std::size_t device = 0;
  std::size_t block = 0;  // of the token
  bool loaded = false;    // then load_start and load_end are set
  Ticks load_start = 0;
  Ticks load_end = 0;
  Ticks start = 0;
  Ticks finish = 0;
  Ticks arrive = 0;   // its output at every device, all-reduce included
  Ticks release = 0;  // of its memory, unless retained
  Ticks stall = 0;
};

// Runs the recurrence token by token.
class Recurrence {
 public:
  explicit Recurrence(MemorySchedule schedule, Start start = Start::cold);

  // Computes one more token. Calls `observe`, if given, for each block and device, in order.
  void token(const std::function<void(const BlockEvent&)>& observe = {});

  [[nodiscard]] Ticks now() const { return arrive_; }  // when the last block arrived
  // Returns each device's stall in the last token; in the first token without that of the first
  // block, which cannot be hidden.
  [[nodiscard]] const std::vector<Ticks>& stalls() const { return stalls_; }
  [[nodiscard]] const MemorySchedule& schedule() const { return schedule_; }

  // The full state relative to now(): equal states have equal, shifted futures. The loader of an
  // unlimited window is left out while it keeps ahead (`ahead`), as its lead grows.
  struct State {
    std::vector<Ticks> times;
    std::vector<bool> ahead;  // by device: unlimited window and no stall in the last token
    bool operator==(const State&) const = default;
  };
  void state(State& into) const;

 private:
  struct Loader {
    Ticks free = 0;               // when its last load ended
    std::vector<Ticks> releases;  // of the last `window` streamed blocks; empty: unlimited
    std::size_t next = 0;         // position in `releases` of the next load
    std::int64_t loads = 0;
    std::int64_t preloaded = 0;  // loads before the start
  };

  MemorySchedule schedule_;
  std::vector<Loader> loaders_;
  std::vector<Ticks> stalls_;
  std::vector<BlockEvent> events_;  // of one block, by device
  Ticks arrive_ = 0;
  std::int64_t tokens_ = 0;
};

struct DeviceSteadyState {
  Ticks load_time = 0;         // a token
  Ticks stall_in_period = 0;   // in `period_tokens` tokens
  double startup_stall = 0.0;  // before the period, in excess of the same number of its tokens
};

// The steady regime of the recurrence: from some token on, every time grows by `period_time` in
// `period_tokens` tokens.
struct SteadyState {
  bool periodic = false;  // false: no repetition within the allowed tokens; the rest are estimates
  std::int64_t period_tokens = 0;
  Ticks period_time = 0;
  Ticks path_time = 0;             // of a token that never waits
  std::int64_t tokens_before = 0;  // tokens before the first occurrence of the repeated state
  std::vector<DeviceSteadyState> devices{};

  // Per token, exact up to the rounding of one division.
  [[nodiscard]] double token_time() const;
  // Returns token_time - path_time: the disk's cost per token.
  [[nodiscard]] double stall() const;
  [[nodiscard]] double stall_fraction() const;  // of the token time
  // Returns whether no device ever waits for its disk: stronger than stall() == 0 if devices
  // differ, as a slower one can hide another's wait.
  [[nodiscard]] bool steady() const;
  // Returns whether the disk adds nothing to the token time.
  [[nodiscard]] bool hidden() const { return period_time == period_tokens * path_time; }
};

// Runs until the state repeats, at most `most_tokens` tokens. An unlimited loader that has kept
// ahead for the whole period and whose load time is at most the token time keeps ahead for ever, so
// it suffices that the others' state repeats. Throws logic_error for an invalid schedule.
[[nodiscard]] SteadyState find_steady_state(const MemorySchedule& schedule,
                                            Start start = Start::cold,
                                            std::int64_t most_tokens = 1'000'000);

}  // namespace tandem::study
