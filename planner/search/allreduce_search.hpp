#pragma once

// Which collective makes the sums of a plan fastest, in prompt and decoding apart.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/predict/analytic.hpp"
#include "planner/plan/plan.hpp"

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

// How a plan makes its sums.
struct Sums {
  AllreduceChoice allreduce;
  Proximity layout;
  bool operator==(const Sums&) const = default;
};

// Makes `layout` the plan's. Of sparse attention whose places are ranks, devices of a group are
// made adjacent in it.
void set_layout(Plan& plan, const Proximity& layout);

// Where a search for sums begins: by wiring, or, as a composition needs groups and devices within
// them, the first of layouts() that has both. Throws Error naming the composition if none has.
[[nodiscard]] Proximity first_layout(const Plan& plan, const AllreduceChoice& wanted);

// `wanted`, chosen for another network, with auto for each composition if this one's layouts() have
// no groups and devices within them.
[[nodiscard]] AllreduceChoice possible_choice(const model::Cluster& cluster,
                                              model::DeviceIndex master, AllreduceChoice wanted);

// `wanted` with the fastest candidate for auto and the fastest of all layouts(), together: the
// least time of the prompt's step and, new_tokens - 1 times, of a step halfway through the new
// tokens (with weights that stream, of later ones in a row). A prompt of one token is lowered as
// decoding is and gets its choice. Ties (1e-9) go to what comes first. Where nothing streams,
// three layers are evaluated, which all others are like. A star alone is laid out by wiring,
// without any search, as is everything on more than 256 devices. Of up to 16 devices auto also
// tries compositions of star, ring and halving with each layout that has groups and devices within
// them; a composition that is asked for is laid out by none but those. `plan` has shares; its
// allreduce and layout are not read; what varies on its cluster is left out. `evaluate` decides
// whether messages that share a link are seen to. It is taken to find no candidate faster than
// evaluate_analytic does, by more than a twentieth: those that are slower there than the best is by
// `evaluate` are not evaluated.
[[nodiscard]] Sums fastest_sums(const Plan& plan, const AllreduceChoice& wanted,
                                const Evaluator& evaluate);

// Seconds of the prompt's step and, new_tokens - 1 times, of decoding's, timed as above, of a few
// layers: for plans of one model to be compared, no prediction (predicted_request_time is one).
[[nodiscard]] double trial_request_time(const Plan& plan, const Evaluator& evaluate);
// Its two parts, for searches that change one: the prompt's step, and all new tokens but the first,
// each as one halfway (0 if there are none).
[[nodiscard]] double trial_prompt_time(const Plan& plan, const Evaluator& evaluate);
[[nodiscard]] double trial_tokens_time(const Plan& plan, const Evaluator& evaluate);

}  // namespace tandem::planner
