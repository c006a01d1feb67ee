#pragma once

// Which collective makes the sums of a plan fastest, in prompt and decoding apart.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/analytic.hpp"
#include "planner/plan.hpp"

namespace tandem::planner {

// model::evaluate_analytic, sim::replay or the like.
using Evaluator = std::function<void(const model::Cluster&, const model::CostModel&, model::Steps&,
                                     model::RunRecorder&)>;

inline constexpr std::string_view kAutoAllreduce = "auto";

// "HOW" for both, or "PROMPT,DECODE". Each is a collective or auto. Throws Error otherwise.
[[nodiscard]] AllreduceChoice parse_allreduce_choice(std::string_view text);

// What auto chooses among for `plan`: every collective, trees of 2 and 3 levels, but none that
// makes the graph of one that comes before it, nor any but the star that takes more than a million
// tasks a step. The star is first. `plan`'s shares and allreduce are not read.
[[nodiscard]] std::vector<std::string> allreduce_candidates(const Plan& plan);

// `wanted` with the fastest candidate for auto: of the prompt by the time of its step, of decoding
// by that of a step halfway through the new tokens (with weights that stream, of later ones in a
// row). A prompt of one token is lowered as decoding is and gets its choice. Ties (1e-9) go to the
// candidate that comes first. `plan` has shares and any allreduce; what varies on its cluster is
// left out. `evaluate` decides whether messages that share a link are seen to.
[[nodiscard]] AllreduceChoice fastest_allreduce(const Plan& plan, const AllreduceChoice& wanted,
                                                const Evaluator& evaluate);

}  // namespace tandem::planner
