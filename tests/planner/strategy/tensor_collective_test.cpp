#include <doctest/doctest.h>

#include "tests/planner/planner_fixture.hpp"
#include "tests/planner/planner_interpreter.hpp"
#include "tests/support/collective_fixture.hpp"

namespace tandem::test::tensor_collective_test {
namespace {

TEST_CASE("planner/tensor: every collective generates the unsharded model's logits") {
  const ModelSizes sizes{.heads = 6, .kv_heads = 3, .head_dim = 2, .intermediate = 7};
  const std::vector<planner::Split> splits{{{6}, {7}},
                                           {{3, 3}, {4, 3}},
                                           {{2, 2, 2}, {3, 0, 4}},
                                           {{1, 0, 3, 2}, {2, 5, 0, 0}},
                                           {{0, 1, 1, 2, 2}, {1, 2, 2, 1, 1}},
                                           {{1, 1, 1, 1, 1, 1}, {2, 1, 1, 1, 1, 1}}};
  for (const std::string& prompt : kAllreduces) {
    for (const std::string& decode : {std::string("star"), prompt}) {
      for (const planner::Split& split : splits) {
        CAPTURE(prompt);
        CAPTURE(decode);
        CAPTURE(split.heads.size());
        planner::Plan plan = plan_of("tensor", sizes, split.heads.size() > 2 ? 2 : 0, split);
        plan.allreduce = {prompt, decode};
        plan.validate();
        check_generation(plan);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::test::tensor_collective_test
