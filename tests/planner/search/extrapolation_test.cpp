#include "planner/search/extrapolation.hpp"

#include <doctest/doctest.h>

#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::extrapolation_test {
namespace {

using model::TaskKind;
using planner::extrapolation_remark;

// A plan of two devices for prompts of `prompt` tokens, the second one's products measured with up
// to `rows`.
planner::Plan measured_plan(std::int64_t prompt, double rows) {
  planner::Plan plan = plan_of("tensor", {}, 0, {.heads = {2, 2}, .columns = {3, 3}});
  plan.workload.prompt_tokens = prompt;
  model::DeviceProfile& profile = plan.profiles[1];
  profile.source = "a desk";
  for (const TaskKind kind :
       {TaskKind::project_qkv, TaskKind::project_out, TaskKind::ffn_up, TaskKind::ffn_down}) {
    auto& points = profile.rate[static_cast<std::size_t>(kind)].points;
    points = {{.intensity = 1.0, .seconds_per_byte = 1e-10}};
    if (rows > 1.0) points.push_back({.intensity = rows, .seconds_per_byte = 1e-9});
  }
  return plan;
}

TEST_CASE("planner/extrapolation: a profile of shorter prompts than the plan's is told of") {
  CHECK(extrapolation_remark(measured_plan(200, 4.0)) ==
        "device 'd1': measured with prompts of at most 4 tokens, but steps have up to 200: the "
        "predicted time to first token is a guess, probably far too long; measure the "
        "profile again with more --seconds");
  planner::Plan both = measured_plan(2, 1.0);
  both.profiles[0] = both.profiles[1];
  CHECK(
      extrapolation_remark(both).starts_with("devices 'd0', 'd1': measured with prompts of at most "
                                             "1 token, but steps have up to 2: "));
  CHECK(!extrapolation_remark(measured_plan(4000, 63.0)).empty());
}

TEST_CASE(
    "planner/extrapolation: nothing is said of what was measured, or known to be in proportion") {
  CHECK(extrapolation_remark(measured_plan(1, 1.0)).empty());
  CHECK(extrapolation_remark(measured_plan(8, 8.0)).empty());
  CHECK(extrapolation_remark(measured_plan(4000, 64.0)).empty());
  planner::Plan nominal = measured_plan(200, 4.0);
  nominal.profiles[1].source = "nominal";
  CHECK(extrapolation_remark(nominal).empty());
}

TEST_CASE("planner/extrapolation: one product that lacks rows is enough, and capacity counts") {
  planner::Plan plan = measured_plan(8, 8.0);
  plan.capacity = {.rows = 32, .positions = 64, .sequences = 2};
  CHECK(!extrapolation_remark(plan).empty());
  plan = measured_plan(8, 64.0);
  plan.profiles[1].rate[static_cast<std::size_t>(TaskKind::ffn_up)].points.pop_back();
  CHECK(!extrapolation_remark(plan).empty());
}

}  // namespace
}  // namespace tandem::test::extrapolation_test
