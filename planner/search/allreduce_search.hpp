#pragma once

// The search for the fastest collective of a plan's sums, separately for prompt and decoding.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/predict/analytic.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// model::evaluate_analytic, sim::replay or a similar function.
using Evaluator = std::function<void(const model::Cluster&, const model::CostModel&, model::Steps&,
                                     model::RunRecorder&)>;

inline constexpr std::string_view kAutoAllreduce = "auto";

// "HOW" for both, or "PROMPT,DECODE". Each is a collective or auto. Throws Error otherwise.
[[nodiscard]] AllreduceChoice parse_allreduce_choice(std::string_view text);

// Returns the candidates of auto for `plan`: every collective and trees of 2 and 3 levels, without
// duplicates of an earlier one's graph and, except the star, without any of more than a million
// tasks a step. The star is first. `plan`'s shares and allreduce are not read.
[[nodiscard]] std::vector<std::string> allreduce_candidates(const Plan& plan);

// The collectives and the layout of a plan's sums.
struct Sums {
  AllreduceChoice allreduce;
  Proximity layout;
  bool operator==(const Sums&) const = default;
};

// Sets the plan's layout. With sparse attention whose places are ranks, devices of a group become
// adjacent in it.
void set_layout(Plan& plan, const Proximity& layout);

// Returns the initial layout of a search for sums: by wiring or, as a composition needs groups of
// several devices, the first of layouts() with such groups. Throws Error naming the composition if
// there is none.
[[nodiscard]] Proximity first_layout(const Plan& plan, const AllreduceChoice& wanted);

// Returns `wanted`, chosen for another network, with auto in place of each composition if this
// network's layouts() have no groups of several devices.
[[nodiscard]] AllreduceChoice possible_choice(const model::Cluster& cluster,
                                              model::DeviceIndex master, AllreduceChoice wanted);

// Returns `wanted` with the fastest candidate for auto and the fastest of all layouts(), together:
// by the time of the prompt's step plus new_tokens - 1 steps halfway through the new tokens (if
// weights stream, of several later steps). A prompt of one token is lowered as decoding and uses
// its choice. Ties (1e-9) go to the first. If nothing streams, three layers are evaluated, as the
// others are equal. A star alone, and everything on more than 256 devices, is laid out by wiring
// without a search. Up to 16 devices auto also tries compositions of star, ring and halving with
// each layout that has groups of several devices; a requested composition is tried with those
// layouts only. `plan` has shares; its allreduce and layout are not read, and its cluster's
// variation is ignored. `evaluate` decides whether messages contend for links. It is assumed to
// find no candidate more than a twentieth faster than evaluate_analytic does: candidates that are
// slower there than the best by `evaluate` are skipped.
[[nodiscard]] Sums fastest_sums(const Plan& plan, const AllreduceChoice& wanted,
                                const Evaluator& evaluate);

// Returns the time of the prompt's step plus new_tokens - 1 decoding steps, as above, for a few
// layers: for comparing plans of one model, not a prediction (see predicted_request_time).
[[nodiscard]] double trial_request_time(const Plan& plan, const Evaluator& evaluate);
// Its two terms, for searches that change one: the prompt's step, and all new tokens but the first,
// each as one halfway (0 if there are none).
[[nodiscard]] double trial_prompt_time(const Plan& plan, const Evaluator& evaluate);
[[nodiscard]] double trial_tokens_time(const Plan& plan, const Evaluator& evaluate);

}  // namespace tandem::planner
