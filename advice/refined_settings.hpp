#pragma once

// Settings that refine one: the last steps of a search, of all strategies and of one.

#include <cstdint>
#include <optional>

#include "advice/question.hpp"
#include "advice/settings.hpp"

namespace tandem::study {

// Returns `setting` with the weights of a prompt gathered (Plan::gather_weights), in full. Nothing
// if the strategy or the request does not leave that open, or if a rough plan of it is 1.3 times as
// slow as `least` or there is none.
[[nodiscard]] std::optional<Setting> gathered(Answers& answers, const Question& question,
                                              Setting setting, double least);

// Returns `setting` with heads and columns found for `tiles` tiles, those of its plan: the planner
// finds shares for one tile, and then the tiles that are best for them. Nothing if the strategy
// does not split heads, there are no two tiles, or they are given.
[[nodiscard]] std::optional<Setting> for_tiles(const Question& question, Setting setting,
                                               std::int32_t tiles);

// Returns `setting` with better parts of replicated weights, or of positions, sought by prediction
// (planner::parts_axis). Nothing if the strategy has no such parts, they are given, requests are
// many, or the devices more than four, for which that takes long.
[[nodiscard]] std::optional<Setting> for_parts(const Question& question, Setting setting);

}  // namespace tandem::study
