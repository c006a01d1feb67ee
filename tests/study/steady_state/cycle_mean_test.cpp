#include "study/steady_state/cycle_mean.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "study/steady_state/recurrence.hpp"
#include "tests/study/steady_state/steady_state_draws.hpp"

namespace tandem::study::testing::cycle_mean_test {

TEST_CASE("study/steady state: the token time is the largest cycle mean, for any schedule") {
  ScheduleDice dice(6);
  int wrong = 0;
  for (int i = 0; i < 4000; ++i) {
    const MemorySchedule schedule = dice.any(3);
    const SteadyState found = find_steady_state(schedule);
    const double mean = largest_cycle_mean(schedule);
    const double error = std::abs(mean - found.token_time());
    if (!found.periodic || !(error <= 1e-9 * std::max(1.0, mean))) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("study/steady state: one block, one device: t + max(t_ar, tau), t + t_ar + tau") {
  MemorySchedule schedule{.devices = {{.blocks = {{.compute = 5, .load = 11}}, .window = 1}},
                          .reduce = {7}};
  CHECK(largest_cycle_mean(schedule) == doctest::Approx(5 + 11));
  schedule.devices[0].release = model::ReleaseRule::late;
  CHECK(largest_cycle_mean(schedule) == doctest::Approx(5 + 7 + 11));
}

}  // namespace tandem::study::testing::cycle_mean_test
