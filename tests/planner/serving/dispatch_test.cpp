#include "planner/serving/dispatch/dispatch.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::test::dispatch_test {

using planner::ReplicaLoad;

std::size_t picked(const std::string& rule, const std::vector<ReplicaLoad>& loads) {
  return planner::find_dispatch(rule).pick(loads);
}

TEST_CASE("planner/dispatch: least-work counts the work of the request itself") {
  // Idle but slow, against busy but fast.
  CHECK(picked("least-work",
               {{.backlog_s = 0.0, .work_s = 5.0}, {.backlog_s = 3.0, .work_s = 1.0}}) == 1);
  CHECK(picked("least-work",
               {{.backlog_s = 0.0, .work_s = 5.0}, {.backlog_s = 5.0, .work_s = 1.0}}) == 0);
}

TEST_CASE("planner/dispatch: idle equals take turns") {
  CHECK(picked("least-work", {{.work_s = 1.0, .sent = 1}, {.work_s = 1.0, .sent = 0}}) == 1);
}

TEST_CASE("planner/dispatch: fewest-open takes the faster one of equals") {
  const std::vector<ReplicaLoad> loads{{.backlog_s = 0.0, .work_s = 1.0, .open = 2},
                                       {.backlog_s = 9.0, .work_s = 3.0, .open = 1},
                                       {.backlog_s = 9.0, .work_s = 2.0, .open = 1}};
  CHECK(picked("fewest-open", loads) == 2);
}

TEST_CASE("planner/dispatch: leastconn counts open requests alone, and equals take turns") {
  const std::vector<ReplicaLoad> loads{{.work_s = 1.0, .open = 2, .sent = 2},
                                       {.work_s = 1.0, .open = 1, .sent = 4},
                                       {.work_s = 3.0, .open = 1, .sent = 3}};
  CHECK(picked("leastconn", loads) == 2);
}

TEST_CASE("planner/dispatch: of equal loads the first replica is taken") {
  for (const planner::Dispatch& rule : planner::dispatches()) {
    CAPTURE(rule.name);
    CHECK(rule.pick(std::vector<ReplicaLoad>(3)) == 0);
  }
}

TEST_CASE("planner/dispatch: an unknown rule is refused with the known ones") {
  CHECK_THROWS_WITH_AS(
      static_cast<void>(planner::find_dispatch("random")),
      "dispatch 'random': unknown, expected one of least-work, fewest-open, leastconn", Error);
}

}  // namespace tandem::test::dispatch_test
