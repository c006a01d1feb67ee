#pragma once

// Which layers the stages of a pipeline have if its prompt is read in chunks.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "planner/serving/chunk_search.hpp"

namespace tandem::planner {

// Returns the requests whose shares are tried for a prompt in chunks, the first of them `request`.
// Where it leaves layers to the search, the others have layers for the highest rate, by Galaxy's
// Algorithm 1, in proportion to the devices' speeds, and in equal numbers: while a prompt is read
// all stages work at once, but layers for a whole prompt are many at the fastest device.
[[nodiscard]] std::vector<Request> requests_in_chunks(const Request& request);

// How a prompt is to be read, and what counts.
struct ChunkReading {
  std::span<const InferenceRequest> requests;  // one
  const Policy& policy;
  std::int64_t chunk = 0;  // rows; 0: as is best
  std::int64_t steps = 0;  // in flight; 0: as make_plan_in_flight() finds
  // Returns the seconds of the objective with the prompt in chunks of so many rows.
  std::function<double(const Plan& plan, std::int64_t chunk)> seconds;
};

// Returns `made`, a plan of `request`, or a faster one with other numbers of layers: single layers
// pass from stage to stage as long as that saves time, then chunks and steps in flight are found
// again. Its own answer if the request gives shares, or weights stream. Ends early with the best so
// far (search_effort.hpp).
[[nodiscard]] ChunkedPlan with_moved_layers(const Request& request, ChunkedPlan made,
                                            const ChunkReading& reading);

}  // namespace tandem::planner
