#include "planner/serving/request_capacity.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {
namespace {

// Returns the positions of the `count` longest requests.
std::int64_t most_positions(std::span<const InferenceRequest> requests, std::int64_t count) {
  std::vector<std::int64_t> positions;
  positions.reserve(requests.size());
  for (const InferenceRequest& request : requests)
    positions.push_back(reserved_positions(request.positions()));
  std::ranges::sort(positions, std::greater<>());
  return std::accumulate(positions.begin(), positions.begin() + count, std::int64_t{0});
}

// Returns the rows of a step with one prompt.
std::int64_t rows_of(std::span<const InferenceRequest> requests, std::int64_t chunk) {
  std::int64_t rows = 1;
  for (const InferenceRequest& request : requests) rows = std::max(rows, request.prompt_tokens);
  return chunk > 0 ? std::min(rows, chunk) : rows;
}

// Returns the rows of a step with as many prompts as fit a chunk; without chunks the longest prompt
// limits the rows of a step.
std::int64_t rows_together(std::span<const InferenceRequest> requests, std::int64_t chunk) {
  if (chunk == 0) return rows_of(requests, chunk);
  std::int64_t rows = 0;
  for (const InferenceRequest& request : requests) rows += request.prompt_tokens;
  return std::min(std::max<std::int64_t>(1, rows), chunk);
}

}  // namespace

std::int64_t most_in_flight(std::span<const InferenceRequest> requests, std::int64_t chunk) {
  std::int64_t steps = 0;
  for (const InferenceRequest& request : requests) {
    steps += chunk > 0 ? std::max<std::int64_t>(1, (request.prompt_tokens + chunk - 1) / chunk) : 1;
    if (steps >= kMostSteps) return kMostSteps;
  }
  return steps;
}

Capacity wanted_capacity(std::span<const InferenceRequest> requests, const Policy& policy,
                         std::int64_t chunk, std::int64_t steps) {
  if (!policy.several()) return least_capacity(requests, chunk);
  const std::int64_t flying = std::min(steps, most_in_flight(requests, chunk));
  const std::int64_t most = policy.alone()    ? flying
                            : policy.budget() ? std::min(flying * chunk, kMostSequences)
                                              : kMostSequences;
  const auto sequences = std::min(static_cast<std::int64_t>(requests.size()), most);
  const std::int64_t rows =
      policy.alone() ? rows_of(requests, chunk) : rows_together(requests, chunk);
  return {.rows = step_rows(policy, rows, sequences, chunk),
          .positions = most_positions(requests, sequences),
          .sequences = sequences,
          .steps = flying};
}

std::int64_t most_steps(std::span<const InferenceRequest> requests, std::int64_t chunk,
                        const Capacity& capacity) {
  std::int64_t tokens = 0;
  std::int64_t prompts = 0;
  for (const InferenceRequest& request : requests) {
    tokens += std::max<std::int64_t>(1, request.limit());
    prompts += request.prompt_tokens;
  }
  const std::int64_t rows = std::max<std::int64_t>(1, std::min(chunk, capacity.rows));
  return tokens + (chunk > 0 ? prompts / rows : 0);
}

Capacity least_capacity(std::span<const InferenceRequest> requests, std::int64_t chunk) {
  Capacity capacity{.rows = rows_of(requests, chunk), .positions = 0, .sequences = 1, .steps = 1};
  for (const InferenceRequest& request : requests)
    capacity.positions = std::max(capacity.positions, reserved_positions(request.positions()));
  return capacity;
}

Capacity least_capacity(std::span<const InferenceRequest> requests, const Policy& policy,
                        std::int64_t chunk, std::int64_t steps) {
  std::size_t sequences = 1;
  while (sequences < requests.size() && most_in_flight(requests.first(sequences), chunk) < steps)
    ++sequences;
  const auto count = static_cast<std::int64_t>(sequences);
  return {.rows = step_rows(policy, rows_of(requests, chunk), count, chunk),
          .positions = most_positions(requests, count),
          .sequences = count,
          .steps = steps};
}

std::vector<Capacity> capacities(std::span<const InferenceRequest> requests, const Policy& policy,
                                 std::int64_t chunk, std::int64_t steps, const Capacity& least) {
  const std::int64_t reading = least_capacity(requests, chunk).rows;
  std::vector<Capacity> all{wanted_capacity(requests, policy, chunk, steps)};
  while (all.back() != least) {
    const Capacity& last = all.back();
    const std::int64_t sequences = std::max<std::int64_t>(1, last.sequences / 2);
    all.push_back(larger(least, {.rows = step_rows(policy, reading, sequences, chunk),
                                 .positions = last.positions / 2,
                                 .sequences = sequences,
                                 .steps = std::min(last.steps, sequences)}));
  }
  return all;
}

}  // namespace tandem::planner
