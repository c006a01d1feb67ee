#pragma once

// The search for the length of a prompt's chunks, by prediction.

#include <cstdint>
#include <functional>

namespace tandem::planner {

// Returns the rows of a chunk that take the least time; 0: whole prompts. More chunks keep more
// stages busy at once and let others' new tokens pass, but each reads all weights. With the longest
// prompt's P rows in k chunks of ceil(P / k), tries k of 1, 2, 3, 4, 6, 8, 12, ... to 256 (of
// several requests 1, 2, 4, ... to 32) until four in a row are worse than the best, on to 8192
// while each doubling is the best so far, then the neighbours of the best; roughly: 1, 2, 4, ...
// alone.
//   longest   rows of the longest prompt
//   many      several requests
//   seconds   in chunks of so many rows; infinite: they do not fit
[[nodiscard]] std::int64_t best_chunk(std::int64_t longest, bool many, bool roughly,
                                      const std::function<double(std::int64_t chunk)>& seconds);

// Returns the rows of 512, 256, 128, ... 1, fewer than `prompt`, that are the first for which
// `fits` returns true; 0: none. The largest is llama.cpp's micro-batch. Shorter steps need less
// memory, so where one row does not fit nothing does, and that is asked first.
[[nodiscard]] std::int64_t longest_fitting_step(std::int64_t prompt,
                                                const std::function<bool(std::int64_t rows)>& fits);

}  // namespace tandem::planner
