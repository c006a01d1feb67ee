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

// Returns `setting`, whose weights stream or not, with what takes long to search: parts of
// replicated weights or of positions (planner::parts_axis), stages that are joined, and sums where
// weights stream (OpenAxes::at_length). Nothing if that is given or not there, or with more than
// four devices.
[[nodiscard]] std::optional<Setting> refined(const Question& question, Setting setting,
                                             bool streams);

// Returns the setting roughly, in the number of tiles for which shares are found: of its plans the
// one that takes the least time to make.
[[nodiscard]] Setting quickest(const Question& question, Setting setting);

}  // namespace tandem::study
