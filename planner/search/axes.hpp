#pragma once

// The axes of a plan of one strategy: each has a file NAME_axis.cpp and a row of the list in
// search.cpp.

#include "planner/search/engine.hpp"

namespace tandem::planner {

// The type of messages, if it is open: the request's, and f32 where a link is faster than the
// copies that round numbers. Within a LossBudget: all types that it allows. Compares predictions of
// the objective.
[[nodiscard]] const Axis& wire_axis();

// The type of the key/value cache, if it is open: the request's, and f32 where a profile's
// attention is slower over the other and f32 saves 0.1%. Within a LossBudget: all types that it
// allows beside the messages'. Compares predictions of the objective.
[[nodiscard]] const Axis& cache_axis();

// The parts that devices have of replicated weights, or of the prompt's positions, if they are
// open: those found, and better ones by moving a quarter, an eighth, ... 1/64 of all from one
// device to another for as long as that helps. For up to 8 devices. Compares predictions of the
// objective.
[[nodiscard]] const Axis& parts_axis();

// The levels of a prompt's attention, if they are open: none, and two with nothing dropped, which
// is dense attention in another order, if they save 0.1%. Compares predictions of the objective.
[[nodiscard]] const Axis& levels_axis();

// What computes a stage of a pipeline, if that is open: one device, those near one another, or, if
// searched at length, pairs of stages that are joined for as long as that helps. Groups compute
// prompts as `tensor` or as `galaxy` does. Compares predictions of the objective.
[[nodiscard]] const Axis& stages_axis();

// What travels for new tokens, if that is open: the values of Strategy::moves() for a prompt whose
// keys and values lie on several devices. Compares predictions of the objective.
[[nodiscard]] const Axis& moves_axis();

// The collective, if it is open: the request's, and auto. sums_axis() compares trials of a few
// layers before tiles are chosen, so its choice may be slower. Compares predictions of the
// objective.
[[nodiscard]] const Axis& usual_sums_axis();

// The placement of the LM head: all of it on the master, or rows on every device.
// The master alone, split with all logits sent, and split with `request.candidates`, as far as
// allowed. Split: shares, sums and windows are those with the head on the master; its rows follow
// the speed of a token's logits (or the given proportions, if the partition has them), in units of
// 64 for large vocabularies, as far as memory allows. Compares predictions of the objective.
// Infeasible if the rows do not fit.
[[nodiscard]] const Axis& head_axis();

// Plans that minimise one phase of a request.
// For objectives `ttft` and `latency`: the plan for the whole request, and the plan made for its
// prompt (its new tokens) alone, which then serves the whole request. New tokens alone are a
// request with a prompt of one token that ends at the same position, so the context in the middle
// is up to half the prompt shorter, and shares may be suboptimal by that difference in attention.
// Compares predictions of the objective.
[[nodiscard]] const Axis& phase_axis();

// The number of tiles in which a prompt's products overlap its messages.
// 0, 1, 2 and 4 tiles, and 8, 16, ... for as long as they are better, with the shares found for 1,
// as far as their messages fit: of all rows or, with sparse attention, of the rows that travel at
// each level. Compares trials of a few layers.
[[nodiscard]] const Axis& tiles_axis();

// More numbers of tiles, if they are open: those next to the number that was found, by halves of
// the distance, for as long as that helps. Compares predictions of the objective, of all layers.
[[nodiscard]] const Axis& tile_numbers_axis();

// The collectives within the groups of a pipeline.
// For requests with groups: the requested sums or, for auto, the fastest, first for new tokens,
// then for the prompt, as the time of one phase does not depend on the sums of the other. Compares
// periods if the objective is the rate, else predictions of the request.
[[nodiscard]] const Axis& group_axis();

// How often a step goes round the devices of a pipeline.
// One round and, if its plan streams weights or there is none, growing numbers: more rounds cost
// messages, and gain only where weights stream meanwhile. Compares predictions of the request.
[[nodiscard]] const Axis& rounds_axis();

// The collective and the layout of a plan's sums.
// For strategies with a collective. Given collectives get the fastest layout. `auto` is, where
// requested, the first candidate that has a plan, then the fastest one (fastest_sums) for likely
// shares and for the shares of that plan: sums and shares depend on each other, so both orders are
// tried. Compares trials of a few layers.
[[nodiscard]] const Axis& sums_axis();

}  // namespace tandem::planner
