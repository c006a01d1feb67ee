#pragma once

// TPI-LLM's Propositions 3, 4 and 6 as printed (arXiv 2410.00531, section 3.3), on one device's
// times. Their domains are in steady_state/closed_form.hpp and docs/results/propositions.md.

#include "study/steady_state/layered.hpp"

namespace tandem::study {

// Proposition 3, the loose steady condition: (4) and one of (5), (6), for every l = 1..layers.
//   (4)  t_attn + t_ffn + 2 t_ar >= tau_ffn + tau_attn
//   (5)  l t_attn + (l-1) t_ffn + (2l-1) t_ar >= l tau_ffn + (l-1) tau_attn
//   (6)  (l-1) t_attn + l t_ffn + (2l-1) t_ar >= (l-1) tau_ffn + l tau_attn
[[nodiscard]] bool proposition3(const LayerTimes& times, Ticks reduce, std::int64_t layers);

// Proposition 4, the tight steady condition:
//   t_attn + t_ar >= tau_ffn  and  t_ffn + t_ar >= tau_attn
[[nodiscard]] bool proposition4(const LayerTimes& times, Ticks reduce);

// Proposition 6, the loose steady condition when one FFN block in every T = `retain` stays:
// for every l = 1..layers
//   (9)   l (t_attn + t_ffn + 2 t_ar) >= (l - ceil(l/T)) tau_ffn + l tau_attn
//   (10)  l t_attn + (l-1) t_ffn + (2l-1) t_ar >= (l - ceil(l/T)) tau_ffn + (l-1) tau_attn
// Throws logic_error unless retain >= 1.
[[nodiscard]] bool proposition6(const LayerTimes& times, Ticks reduce, std::int64_t layers,
                                std::int64_t retain);

}  // namespace tandem::study
