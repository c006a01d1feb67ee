#pragma once

// The choice between CSPS's two variants of sequence parallelism, SP-NTP (strategy/csps.cpp) and
// SP-TP (strategy/galaxy.cpp: the same exchange), and the paper's rule for it.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "planner/partition/search_effort.hpp"
#include "planner/search/search.hpp"

namespace tandem::planner {

// One of the two.
struct SpOption {
  std::optional<Plan> plan{};  // none: infeasible, for `reason`
  std::string reason{};
  double seconds = 0.0;       // by the request's objective
  double prompt_bytes = 0.0;  // all messages of the prompt's step, counted in its graph
};

// CSPS, appendix A: whether SP-NTP sends less than SP-TP in a layer if weights are split by heads,
// so that SP-NTP must gather them first. N devices, L tokens, h hidden size, as many key/value
// heads as query heads:
//   attention alone     4 h^2 (N - 1) + 4 L h (N - 1) / N < 2 L h (N - 1)
//                       that is h / L < (1 - 2 / N) / 2
//   with the FFN        8 h^2 more a gathered device; SP-TP sends 2 L h (N - 1) once more
//                       that is h / L < (1 - 1 / N) / 3
// With two devices the first never holds, where the paper says always. A gathered FFN matrix counts
// as hidden x 4 hidden, ungated, as in the paper.
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
  // Bytes that SP-NTP would gather for all layers if weights were split as in SP-TP's plan, if
  // there is one. Unless the plan gathers weights, every device has them all.
  double gathered_bytes = 0.0;
  bool takes_ntp = false;  // the faster plan, if there is any; ties: SP-NTP
  [[nodiscard]] const SpOption& selected() const { return takes_ntp ? ntp : tp; }
};

// Plans both variants: `request.strategy` and its counterpart with split weights
// (with_split_weights). The first gathers weights (Plan::gather_weights) if the request says so, or
// if that is faster than streaming them or the only feasible plan; their bytes then count among its
// messages. Selects the faster by the request's objective and evaluator. Throws as make_plan does.
// The limits of `effort` apply once the first variant has a plan.
[[nodiscard]] SpChoice choose_sp(const Request& request, SearchEffort& effort);

// Describes the choice in lines: both times, counted bytes, the rule's answer and any disagreement.
[[nodiscard]] std::string describe(const SpChoice& choice, Objective objective);

}  // namespace tandem::planner
