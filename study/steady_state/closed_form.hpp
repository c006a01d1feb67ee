#pragma once

// What replaces the propositions: closed forms that equal the recurrence, each with the condition
// under which it does (tests/study/steady_state/closed_form_test.cpp holds them against it).
//
// Notation: t, tau, t_ar as in the recurrence; C = path_time, D_i = load_time of device i, a token.

#include <optional>

#include "study/steady_state/layered.hpp"

namespace tandem::study {

// Whether no device waits for its disk once the start-up is over, for any schedule. With no stall
// anywhere, arrivals are paced by C alone, so a device keeps up exactly if
//   D_i <= C, and for every streamed block j and every m = 1, ..., one token's streamed blocks,
//   tau(j - m + 1) + ... + tau(j) <= (arrival before j) - release(j - m + 1 - w).
// With an unlimited window the first is all. Where a D_i or a window's path equals C on a device
// that is not the slowest, what it lost at the start may never be regained: then it stalls for
// ever, unseen behind the slower devices, although the condition holds. A warm start avoids it.
[[nodiscard]] bool keeps_up(const MemorySchedule& schedule);
[[nodiscard]] bool keeps_up(const MemorySchedule& schedule, std::size_t device);

// Token time of layers that are all alike, all devices with the same window and rule, without
// retention: layers * max(C1, B), where C1 = max t_attn + max t_ffn + 2 t_ar is a layer's path time
// and B, the most over devices, is what the disk needs a layer:
//   w >= 3         tau_attn + tau_ffn                      (Proposition 3's (4): more than three
//                                                           blocks of window never help)
//   w = 2, early   ... or t_attn + tau_attn, or t_ffn + tau_ffn
//   w = 2, late    ... or t_attn + tau_attn + t_ar, or t_ffn + tau_ffn + t_ar
//   w = 1, early   t_attn + t_ffn + max(tau_attn + tau_ffn, tau_attn + t_ar, tau_ffn + t_ar)
//   w = 1, late    max (t_attn + tau_attn) + max (t_ffn + tau_ffn) + 2 t_ar
// Unequal all-reduces, retention and blocks between tokens are outside: see unlimited_token_time.
// Throws logic_error with retention.
[[nodiscard]] Ticks layered_token_time(const LayeredSchedule& layered);

// Token time of any schedule whose windows are all unlimited: max(C, largest D_i). A lower bound
// for every other. Where D wins, a token takes what its device's disk needs to read its blocks.
[[nodiscard]] Ticks unlimited_token_time(const MemorySchedule& schedule);

// Token time of devices that are all alike and stream every block, of any lengths:
//   w = 1, early   sum over b of t(b) + max(t_ar(b), tau(b + 1))
//   w = 1, late    sum over b of t(b) + t_ar(b) + tau(b)
//   w = 2, late    sum over b of max(t(b) + t_ar(b), tau(b + 1))
//   unlimited      max(C, D)
// Empty for other windows: there the largest cycle mean has no such sum (steady_state/cycle_mean).
[[nodiscard]] std::optional<Ticks> uniform_token_time(const MemorySchedule& schedule);

// Proposition 6 for "after the start-up" and an unlimited window: only (9) at l = layers is needed,
//   L (t_attn + t_ffn + 2 t_ar) >= L tau_attn + (L - ceil(L/T)) tau_ffn.
[[nodiscard]] bool proposition6_steady(const LayerTimes& times, Ticks reduce, std::int64_t layers,
                                       std::int64_t retain);

// What Proposition 4 is exact for and what its neighbours need: the steady condition of one device
// (or several alike) by window and rule, without retention.
//   w >= 3         (4)
//   w = 2, early   (4), t_ffn + 2 t_ar >= tau_attn, t_attn + 2 t_ar >= tau_ffn
//   w = 2, late    t_ffn + t_ar >= tau_attn, t_attn + t_ar >= tau_ffn       (Proposition 4)
//   w = 1, early   t_ar >= tau_attn, t_ar >= tau_ffn
//   w = 1, late    tau_attn = tau_ffn = 0
[[nodiscard]] bool steady_condition(const LayerTimes& times, Ticks reduce, std::int64_t window,
                                    model::ReleaseRule release);

}  // namespace tandem::study
