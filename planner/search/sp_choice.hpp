#pragma once

// The choice between CSPS's two ways to part a prompt's rows, SP-NTP (strategy/csps.cpp) and SP-TP
// (strategy/galaxy.cpp: the same exchange), and the paper's rule for it.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "planner/search/search.hpp"

namespace tandem::planner {

// One of the two.
struct SpOption {
  std::optional<Plan> plan{};  // none: there is none, for `reason`
  std::string reason{};
  double seconds = 0.0;       // by the request's objective
  double prompt_bytes = 0.0;  // of all messages of the prompt's step, counted in its graph
};

// CSPS, appendix A: whether SP-NTP sends less than SP-TP in a layer where weights lie split by
// heads, so that SP-NTP must gather them first. N devices, L tokens, h hidden size, as many
// key/value heads as query heads:
//   attention alone     4 h^2 (N - 1) + 4 L h (N - 1) / N < 2 L h (N - 1)
//                       that is h / L < (1 - 2 / N) / 2
//   with the FFN        8 h^2 more a device gathered, as much again of L h (N - 1) by SP-TP
//                       that is h / L < (1 - 1 / N) / 3
// Of two devices the first is never so, where the paper says always. A gathered matrix of the FFN
// counts as if it were hidden x 4 hidden, ungated, as in the paper's time.
struct SpRule {
  double ratio = 0.0;            // h / L
  double attention_limit = 0.0;  // of the ratio
  double ffn_limit = 0.0;
  [[nodiscard]] bool attention_says_ntp() const { return ratio < attention_limit; }
  [[nodiscard]] bool ffn_says_ntp() const { return ratio < ffn_limit; }
};
[[nodiscard]] SpRule sp_rule(std::int64_t hidden, std::int64_t tokens, std::int64_t devices);

struct SpChoice {
  SpOption ntp{};
  SpOption tp{};
  SpRule rule{};
  // Of weights: what SP-NTP would have to gather of all layers if they lay split as SP-TP's plan
  // has them, if there is one. Unless the plan gathers them every device has them all.
  double gathered_bytes = 0.0;
  bool takes_ntp = false;  // where there is either plan, the faster one; equal times: SP-NTP
  [[nodiscard]] const SpOption& selected() const { return takes_ntp ? ntp : tp; }
};

// Plans both ways, `request.strategy` and what it is with split weights
// (with_split_weights); the first with weights that are gathered (Plan::gather_weights)
// where the request says so, and where that is faster than to stream them, or the only plan there
// is; then their bytes are among its messages. Takes the one that is faster by the request's
// objective and evaluator. Throws as make_plan does.
[[nodiscard]] SpChoice choose_sp(const Request& request);

// The lines that say so: both times, counted bytes, what the rule says and where they disagree.
[[nodiscard]] std::string describe(const SpChoice& choice, Objective objective);

}  // namespace tandem::planner
