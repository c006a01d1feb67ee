#pragma once

// Replacements of the propositions: closed forms that equal the recurrence, each with its condition
// (tests/study/steady_state/closed_form_test.cpp checks them).
//
// Notation: t, tau, t_ar as in the recurrence; C = path_time, D_i = load_time of device i, a token.

#include <optional>

#include "study/steady_state/layered.hpp"

namespace tandem::study {

// Returns whether no device waits for its disk after the start-up, for any schedule. Without a
// stall anywhere, arrivals are paced by C alone, so a device keeps up exactly if
//   D_i <= C, and for every streamed block j and every m = 1, ..., one token's streamed blocks,
//   tau(j - m + 1) + ... + tau(j) <= (arrival before j) - release(j - m + 1 - w).
// With an unlimited window the first condition suffices. If a D_i or a window's path equals C on a
// device other than the slowest, what it lost at the start may never be regained: it then stalls
// for ever, hidden by the slower devices, although the condition holds. A warm start avoids it.
[[nodiscard]] bool keeps_up(const MemorySchedule& schedule);
[[nodiscard]] bool keeps_up(const MemorySchedule& schedule, std::size_t device);

// Returns the token time of uniform layers, all devices with the same window and rule, without
// retention: layers * max(C1, B), where C1 = max t_attn + max t_ffn + 2 t_ar is a layer's path time
// and B, the maximum over devices, is the disk's time for a layer:
//   w >= 3         tau_attn + tau_ffn                      (Proposition 3's (4): more than three
//                                                           blocks of window never help)
//   w = 2, early   ... or t_attn + tau_attn, or t_ffn + tau_ffn
//   w = 2, late    ... or t_attn + tau_attn + t_ar, or t_ffn + tau_ffn + t_ar
//   w = 1, early   t_attn + t_ffn + max(tau_attn + tau_ffn, tau_attn + t_ar, tau_ffn + t_ar)
//   w = 1, late    max (t_attn + tau_attn) + max (t_ffn + tau_ffn) + 2 t_ar
// Not covered: unequal all-reduces, retention and blocks between tokens (see unlimited_token_time).
// Throws logic_error with retention.
[[nodiscard]] Ticks layered_token_time(const LayeredSchedule& layered);

// Returns the token time of any schedule whose windows are all unlimited: max(C, largest D_i). A
// lower bound for every other schedule. If D wins, a token takes the disk's time for its blocks.
[[nodiscard]] Ticks unlimited_token_time(const MemorySchedule& schedule);

// Returns the token time of equal devices that stream every block, of any lengths:
//   w = 1, early   sum over b of t(b) + max(t_ar(b), tau(b + 1))
//   w = 1, late    sum over b of t(b) + t_ar(b) + tau(b)
//   w = 2, late    sum over b of max(t(b) + t_ar(b), tau(b + 1))
//   unlimited      max(C, D)
// Empty for other windows, where the largest cycle mean has no such sum (steady_state/cycle_mean).
[[nodiscard]] std::optional<Ticks> uniform_token_time(const MemorySchedule& schedule);

// Proposition 6 for "after the start-up" and an unlimited window: only (9) at l = layers is needed,
//   L (t_attn + t_ffn + 2 t_ar) >= L tau_attn + (L - ceil(L/T)) tau_ffn.
[[nodiscard]] bool proposition6_steady(const LayerTimes& times, Ticks reduce, std::int64_t layers,
                                       std::int64_t retain);

// The domain of Proposition 4 and of its neighbours: the steady condition of one device (or several
// equal ones) by window and rule, without retention.
//   w >= 3         (4)
//   w = 2, early   (4), t_ffn + 2 t_ar >= tau_attn, t_attn + 2 t_ar >= tau_ffn
//   w = 2, late    t_ffn + t_ar >= tau_attn, t_attn + t_ar >= tau_ffn       (Proposition 4)
//   w = 1, early   t_ar >= tau_attn, t_ar >= tau_ffn
//   w = 1, late    tau_attn = tau_ffn = 0
[[nodiscard]] bool steady_condition(const LayerTimes& times, Ticks reduce, std::int64_t window,
                                    model::ReleaseRule release);

}  // namespace tandem::study
