#include "planner/plan/outdated_profiles.hpp"

#include <doctest/doctest.h>

#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::outdated_profiles_test {
namespace {

using model::MeasuredKernels;
using planner::outdated_remark;

const MeasuredKernels kHere{
    .generation = 4, .instruction_sets = "AVX2 for floats", .processor = "Zen"};

// A plan of two devices, whose profiles were measured with these kernels.
planner::Plan plan_with(const std::vector<std::optional<MeasuredKernels>>& kernels) {
  planner::Plan plan = plan_of("tensor", {}, 0, {.heads = {2, 2}, .columns = {3, 3}});
  for (std::size_t d = 0; d < kernels.size(); ++d) {
    plan.profiles.at(d).source = "a desk";
    plan.profiles.at(d).kernels = kernels[d];
  }
  return plan;
}

constexpr std::string_view kRemedy =
    ": predicted times, and shares that were chosen by them, are of those kernels; measure again "
    "with `tandem profile` and the run's `--kernels`, and plan again";

TEST_CASE("planner/outdated profiles: nothing is said of this program's kernels, nor of none") {
  CHECK(outdated_remark(plan_with({kHere, kHere}), {kHere}).empty());
  CHECK(outdated_remark(plan_with({}), {kHere}).empty());  // nominal
}

TEST_CASE("planner/outdated profiles: other generations, and profiles that tell of none") {
  MeasuredKernels older = kHere;
  older.generation = 3;
  MeasuredKernels newer = kHere;
  newer.generation = 5;
  CHECK(outdated_remark(plan_with({older, kHere}), {kHere}) ==
        "device 'd0': measured with kernels of generation 3, older than this program's 4" +
            std::string(kRemedy));
  CHECK(outdated_remark(plan_with({std::nullopt, newer}), {kHere}) ==
        "device 'd0': measured by a tandem that did not say with which kernels; device 'd1': "
        "measured with kernels of generation 5, newer than this program's 4" +
            std::string(kRemedy));
  SUBCASE("of many devices some are named") {
    planner::Plan plan =
        plan_of("tensor", {}, 0, {.heads = {1, 1, 1, 1, 0, 0}, .columns = {1, 1, 1, 1, 1, 1}});
    for (model::DeviceProfile& profile : plan.profiles) profile.source = "a desk";
    CHECK(
        outdated_remark(plan, {kHere}).starts_with("devices 'd0', 'd1', 'd2', 'd3' and 2 more: "));
    CHECK(outdated_remark(plan, {kHere}, 5).starts_with("device 'd5': "));
  }
}

TEST_CASE("planner/outdated profiles: threads that others were measured with") {
  planner::Plan plan = plan_with({kHere, kHere});
  constexpr std::string_view kThreadsRemedy =
      ": predicted times may not be this run's; give `tandem plan` and `tandem run` or `tandem "
      "worker` the same '--threads' (emulated devices but the master have 1), and measure again "
      "where a profile does not tell";
  CHECK(planner::threads_remark(plan, std::vector{3, 0}) ==
        "device 'd0' computes with 3 threads, but its profile does not tell of how many it is" +
            std::string(kThreadsRemedy));
  plan.profiles[0].threads = 1;
  plan.profiles[1].threads = 4;
  CHECK(planner::threads_remark(plan, std::vector{1, 4}).empty());
  CHECK(planner::threads_remark(plan, std::vector{0, 0}).empty());
  CHECK(planner::threads_remark(plan, std::vector{2, 1}) ==
        "device 'd0' computes with 2 threads, but its profile is of 1 thread; device 'd1' computes "
        "with 1 thread, but its profile is of 4 threads" +
            std::string(kThreadsRemedy));
  CHECK(planner::threads_remark(plan_with({}), std::vector{8, 8}).empty());  // nominal
}

TEST_CASE("planner/outdated profiles: other instruction sets, on the same processor only") {
  MeasuredKernels other = kHere;
  other.instruction_sets = "SSE4 for floats";
  const planner::Plan plan = plan_with({kHere, other});
  CHECK(outdated_remark(plan, {kHere}) ==
        "device 'd1': measured with SSE4 for floats, but on this processor the program uses AVX2 "
        "for floats" +
            std::string(kRemedy));
  CHECK(outdated_remark(plan, {kHere}, 0).empty());
  CHECK(!outdated_remark(plan, {kHere}, 1).empty());
  other.processor = "a board's";
  CHECK(outdated_remark(plan_with({kHere, other}), {kHere}).empty());
  SUBCASE("a program with several sets of kernels may use any of them") {
    MeasuredKernels reference = kHere;
    reference.instruction_sets = "Eigen";
    CHECK(outdated_remark(plan_with({kHere, reference}), {kHere, reference}).empty());
    CHECK(outdated_remark(plan, {kHere, reference})
              .starts_with("device 'd1': measured with SSE4 for floats, but on this processor the "
                           "program uses AVX2 for floats, or Eigen: "));
  }
  SUBCASE("processors that are not known are not known to be the same") {
    other.processor.clear();
    MeasuredKernels here = kHere;
    here.processor.clear();
    CHECK(outdated_remark(plan_with({kHere, other}), {here}).empty());
  }
}

}  // namespace
}  // namespace tandem::test::outdated_profiles_test
