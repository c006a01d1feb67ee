// Requests join and leave at every step, as in continuous batching, and a step has a budget of
// rows: first a row for each sequence that is decoding, then as many of prompts as are left of it,
// so that no prompt, however long, holds up the next tokens by more than a step of that size.
// Stall-free batching: Agrawal et al., Taming Throughput-Latency Tradeoff in LLM Inference with
// Sarathi-Serve, OSDI 2024, algorithm 3.

#include "planner/serving/policy/continuous.hpp"

namespace tandem::planner {

Policy sarathi_policy() {
  return {.name = "sarathi",
          .summary = "continuous, decoding and chunks of prompts within one budget",
          .step = StepContents::within_chunk,
          .admit = continuous_policy().admit};
}

}  // namespace tandem::planner
