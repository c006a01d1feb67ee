#pragma once

// Random workloads: requests as they arrive at a service, with lengths like those of a data set.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planner/plan/inference_request.hpp"

namespace tandem::planner {

// Tokens of prompts or answers, log-normal with
//   mu = ln median, sigma = (ln p99 - ln median) / z(0.99), z(0.99) = 2.3263
// rounded to whole tokens, at least 1.
struct DrawnLengths {
  double median = 1.0;
  double p99 = 1.0;
};

struct RequestDraw {
  std::int64_t count = 1;
  double rate = 1.0;  // requests a second: gaps between arrivals are exponential with mean 1 / rate
  DrawnLengths prompt{};
  DrawnLengths output{};        // new tokens
  std::int64_t most = 0;        // limit of prompt and new tokens together; 0: none
  std::int32_t vocabulary = 0;  // draws prompts' ids below it; 0: lengths alone
  std::uint64_t seed = 1;
};

// Returns `count` requests r1, r2, ... in the order of their arrival. The first gap precedes r1;
// arrivals are whole microseconds. Sampling is greedy and end-of-text tokens are ignored, so
// lengths are as drawn. The numbers of a seed are the same on every machine except for rounding in
// its ln and exp; changing the rate keeps the lengths, drawing ids keeps both. Lengths beyond
// `most` are drawn again. Throws Error unless 1 <= median <= p99, the rate is positive, and fitting
// lengths appear within a thousand draws.
[[nodiscard]] std::vector<InferenceRequest> drawn_requests(const RequestDraw& draw);

// Returns a line of JSON for each request, which parse_requests reads as the same requests. Writes
// prompts that are texts or ids, and the length of others.
[[nodiscard]] std::string to_json_lines(std::span<const InferenceRequest> requests);

}  // namespace tandem::planner
