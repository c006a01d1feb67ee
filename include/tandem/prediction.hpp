#pragma once

#include <cstdint>
#include <tandem/plan.hpp>
#include <tandem/result.hpp>

namespace tandem {

enum class Evaluator : std::uint8_t {
  simgrid,   // messages share links; a child process simulates
  analytic,  // links never contend; faster
};

struct PredictOptions {
  Evaluator evaluator = Evaluator::simgrid;
  std::uint64_t seed = 1;  // of jitter and loss, if the platform has any
};

// Predicts the plan's request. Throws std::runtime_error where the evaluator cannot (analytic:
// platforms that vary in time or by chance), or where the run would be refused for its memory.
[[nodiscard]] Result predict(const Plan& plan, const PredictOptions& options = {});

}  // namespace tandem
