#include "study/steady_state/closed_form.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "study/steady_state/propositions.hpp"
#include "study/steady_state/recurrence.hpp"
#include "tests/study/steady_state/steady_state_draws.hpp"

namespace tandem::study::testing::closed_form_test {

TEST_CASE("study/steady state: a token of layers all alike takes layers * max(C1, B), always") {
  ScheduleDice dice(1);
  int wrong = 0;
  for (int i = 0; i < 30000; ++i) {
    const LayeredSchedule layered = dice.layered(4);
    const SteadyState found = find_steady_state(to_schedule(layered));
    if (!found.periodic || found.period_time != found.period_tokens * layered_token_time(layered))
      ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("study/steady state: unlimited windows take max(C, D), whatever the blocks") {
  ScheduleDice dice(2);
  int wrong = 0;
  for (int i = 0; i < 20000; ++i) {
    MemorySchedule schedule = dice.any(3);
    for (StreamingDevice& device : schedule.devices) device.window = kUnlimited;
    const SteadyState found = find_steady_state(schedule);
    if (!found.periodic ||
        found.period_time != found.period_tokens * unlimited_token_time(schedule))
      ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("study/steady state: devices alike, w = 1 and w = 2 late, are sums over the blocks") {
  ScheduleDice dice(3);
  int wrong = 0;
  int applied = 0;
  for (int i = 0; i < 20000; ++i) {
    MemorySchedule schedule = dice.any(1);
    schedule.devices[0].window = dice.in(1, 2);
    if (dice.in(0, 1) == 1) schedule.devices.push_back(schedule.devices[0]);
    const auto form = uniform_token_time(schedule);
    if (!form) continue;
    ++applied;
    const SteadyState found = find_steady_state(schedule);
    if (!found.periodic || found.period_time != found.period_tokens * *form) ++wrong;
  }
  CHECK(applied > 3000);
  CHECK(wrong == 0);
}

TEST_CASE("study/steady state: keeps_up decides for any schedule, from a warm start") {
  ScheduleDice dice(4);
  int wrong = 0;
  int steady = 0;
  int lost = 0;        // steady from a warm start only
  int lost_alone = 0;  // although no slower device could hide it, or no path is as long as C
  for (int i = 0; i < 40000; ++i) {
    const MemorySchedule schedule = dice.any(3);
    const bool truth = find_steady_state(schedule, Start::warm).steady();
    if (truth != keeps_up(schedule)) ++wrong;
    const SteadyState cold = find_steady_state(schedule, Start::cold);
    steady += truth ? 1 : 0;
    if (cold.steady() == truth) continue;
    ++lost;
    if (schedule.devices.size() == 1 || !cold.hidden()) ++lost_alone;
  }
  CHECK(wrong == 0);
  CHECK(steady > 4000);
  CHECK(steady < 36000);
  CHECK(lost > 0);
  CHECK(lost_alone == 0);
}

TEST_CASE("study/steady state: conditions by window and rule decide for one device") {
  ScheduleDice dice(5);
  int wrong = 0;
  for (int i = 0; i < 30000; ++i) {
    const LayeredSchedule layered = dice.layered(1);
    const bool truth = find_steady_state(to_schedule(layered)).steady();
    if (truth !=
        steady_condition(layered.devices[0], layered.reduce, layered.window, layered.release))
      ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("study/steady state: Proposition 3 is (4) alone, Proposition 4 is w = 2, late") {
  ScheduleDice dice(10);
  int wrong = 0;
  for (int i = 0; i < 30000; ++i) {
    const LayerTimes t = dice.layer(39);
    const Ticks reduce = dice.in(0, 39);
    const std::int64_t layers = dice.in(1, 9);
    if (proposition3(t, reduce, layers) != steady_condition(t, reduce, 3, model::ReleaseRule::late))
      ++wrong;
    if (proposition4(t, reduce) != steady_condition(t, reduce, 2, model::ReleaseRule::late))
      ++wrong;
    if (proposition4(t, reduce) && !proposition3(t, reduce, layers)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("study/steady state: Proposition 6 is 'no stall from the first block on', w unlimited") {
  ScheduleDice dice(11);
  int wrong = 0;
  int after_start_only = 0;
  for (int i = 0; i < 20000; ++i) {
    const LayeredSchedule layered{.devices = {dice.layer(39)},
                                  .reduce = dice.in(0, 19),
                                  .layers = dice.in(1, 8),
                                  .retain = dice.in(1, 5)};
    const LayerTimes& t = layered.devices[0];
    const SteadyState found = find_steady_state(to_schedule(layered));
    const bool never = found.steady() && found.devices[0].startup_stall == 0.0;
    if (never != proposition6(t, layered.reduce, layered.layers, layered.retain)) ++wrong;
    if (found.steady() != proposition6_steady(t, layered.reduce, layered.layers, layered.retain))
      ++wrong;
    if (found.steady() && !never) ++after_start_only;
  }
  CHECK(wrong == 0);
  CHECK(after_start_only > 100);
}

}  // namespace tandem::study::testing::closed_form_test
