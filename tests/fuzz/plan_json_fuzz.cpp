// libFuzzer target: plans from anywhere either parse, and then write back and lower, or give Error.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/base/error.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/strategy/common/lowering.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const tandem::planner::PlanFile file = tandem::planner::parse_plan_file(text, "fuzz");
    const tandem::planner::Plan& plan = file.plan;
    const std::string written = to_json(file);
    if (to_json(tandem::planner::parse_plan_file(written, "fuzz")) != written) std::abort();
    // Larger plans are valid but too slow for a fuzzer.
    if (plan.model.layers * plan.cluster.size() < 1000 && plan.workload.prompt_tokens < 1000) {
      tandem::planner::GenerationSteps(plan).graph(0);
    }
  } catch (const tandem::Error&) {
    return 0;
  }
  return 0;
}
