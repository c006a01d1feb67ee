#pragma once

// What a run waits for: the critical path of its prompt and of one new token.

#include <cstdint>
#include <string>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/predict/analytic.hpp"
#include "model/predict/cost_model.hpp"
#include "model/report/trace.hpp"

namespace tandem::model {

enum class WaitCause : std::uint8_t { compute, copying, disk, latency, overhead, bandwidth };

// One thing that time on the critical path goes to.
struct Waiting {
  WaitCause cause = WaitCause::compute;
  std::string what;  // "compute of laptop", "copying messages of desktop", "bandwidth of wifi",
                     // "latency of links"
  double seconds = 0.0;
};

struct Bottleneck {
  std::vector<Waiting> prompt;  // longest first; sums to TTFT
  std::vector<Waiting> token;   // of the second token; empty if there is none
};

// What was evaluated: where, at which costs, and the device whose last task ends a step.
struct Evaluated {
  const Cluster& cluster;
  const CostModel& costs;
  DeviceIndex master = 0;
};

// Finds what the first two tokens of `steps` wait for: the first step that samples, with the steps
// before it, which read parts of the prompt, and the next one. Walks back from each sample through
// the actions of these steps' Programs, always to what ended last among dependencies and lane
// predecessor. `trace` has the spans of these steps at least. A transfer's time is its route's
// latency, its sender's message overhead, and the rest, which is laid to that link of the route
// that the steps' messages occupy longest: where one waits for the others.
[[nodiscard]] Bottleneck find_bottleneck(const Evaluated& run, Steps& steps, const Trace& trace);

// The largest few in words: "compute of laptop 61%, bandwidth of wifi 30%, latency of links 9%".
[[nodiscard]] std::string to_text(const std::vector<Waiting>& waiting);

}  // namespace tandem::model
