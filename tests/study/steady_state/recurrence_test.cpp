#include "study/steady_state/recurrence.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "study/steady_state/closed_form.hpp"
#include "study/steady_state/propositions.hpp"
#include "tests/study/steady_state/steady_state_draws.hpp"

namespace tandem::study::testing::recurrence_test {
namespace {

// TPI-LLM, section 3.3: Llama 2-7B on four laptops, milliseconds.
LayeredSchedule worked_example() {
  return {.devices = {{.attention = 11, .ffn = 17, .load_attention = 18, .load_ffn = 30}},
          .reduce = 14,
          .layers = 32,
          .window = 4};
}

std::vector<BlockEvent> events(const MemorySchedule& schedule, int tokens) {
  std::vector<BlockEvent> all;
  Recurrence run(schedule);
  for (int i = 0; i < tokens; ++i) run.token([&](const BlockEvent& e) { all.push_back(e); });
  return all;
}

}  // namespace

TEST_CASE("study/steady state: the paper's worked example (11, 17, 14, 18, 30 ms)") {
  LayeredSchedule example = worked_example();
  SUBCASE("w = 4: tight fails, 25 < 30; loose holds, 56 >= 48; one stall of 5 ms, then none") {
    CHECK_FALSE(proposition4(example.devices[0], example.reduce));
    CHECK(proposition3(example.devices[0], example.reduce, example.layers));
    const SteadyState found = find_steady_state(to_schedule(example));
    CHECK(found.periodic);
    CHECK(found.steady());
    CHECK(found.hidden());
    CHECK(found.devices[0].startup_stall == 5.0);
    CHECK(found.token_time() == 32 * 56.0);
  }
  SUBCASE("w = 2, late release: 5 ms in every layer") {
    example.window = 2;
    example.release = model::ReleaseRule::late;
    const SteadyState found = find_steady_state(to_schedule(example));
    CHECK_FALSE(found.steady());
    CHECK(found.stall() == 32 * 5.0);
    CHECK(found.token_time() == 32 * (56.0 + 5.0));
    CHECK(found.stall_fraction() == doctest::Approx(5.0 / 61.0));
  }
}

TEST_CASE("study/steady state: a token by hand, w = 2 early: 18, 11, 14, then 30 - 25 late") {
  LayeredSchedule example = worked_example();
  example.window = 2;
  example.layers = 1;
  const std::vector<BlockEvent> all = events(to_schedule(example), 2);
  REQUIRE(all.size() == 4);
  CHECK(all[0].load_end == 18);
  CHECK(all[0].stall == 18);
  CHECK(all[0].arrive == 18 + 11 + 14);
  CHECK(all[1].load_start == 18);
  CHECK(all[1].load_end == 48);
  CHECK(all[1].stall == 5);
  CHECK(all[1].release == 48 + 17);
  CHECK(all[2].load_start == 48);  // the window's place was free at 29
  CHECK(all[2].load_end == 66);
  CHECK(all[2].start == 48 + 17 + 14);
  CHECK(all[3].load_start == 66);  // of block 1's release at 65 and the loader at 66
}

TEST_CASE("study/steady state: never two loads at once, never more than w blocks, in order") {
  ScheduleDice dice(7);
  int wrong = 0;
  for (int i = 0; i < 500; ++i) {
    const MemorySchedule schedule = dice.any(3);
    const std::vector<BlockEvent> all = events(schedule, 4);
    for (std::size_t d = 0; d < schedule.devices.size(); ++d) {
      const StreamingDevice& device = schedule.devices[d];
      std::vector<BlockEvent> streamed;
      Ticks loaded = 0;
      for (const BlockEvent& e : all) {
        if (e.device != d) continue;
        if (e.loaded && e.load_start < loaded) ++wrong;
        if (e.loaded) loaded = e.load_end;
        if (e.start != std::max(e.load_end, e.start - e.stall)) ++wrong;
        if (device.blocks[e.block].residence == Residence::streamed) streamed.push_back(e);
      }
      for (std::size_t j = 0; j < streamed.size(); ++j)
        if (device.window <= static_cast<std::int64_t>(j) &&
            streamed[j].load_start < streamed[j - static_cast<std::size_t>(device.window)].release)
          ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("study/steady state: the period it finds goes on, token by token") {
  ScheduleDice dice(8);
  int wrong = 0;
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    const MemorySchedule schedule = dice.any(3);
    const SteadyState found = find_steady_state(schedule);
    REQUIRE(found.periodic);
    Recurrence run(schedule);
    std::vector<Ticks> ends;
    const std::int64_t tokens = found.tokens_before + 3 * found.period_tokens;
    for (std::int64_t token = 0; token < tokens; ++token) {
      run.token();
      ends.push_back(run.now());
    }
    for (auto token = static_cast<std::size_t>(found.tokens_before + found.period_tokens);
         token < ends.size(); ++token)
      if (ends[token] - ends[token - static_cast<std::size_t>(found.period_tokens)] !=
          found.period_time)
        ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("study/steady state: a retained block is in memory from the start, beside the window") {
  LayeredSchedule layered{
      .devices = {{.attention = 1, .ffn = 1, .load_attention = 5, .load_ffn = 9}},
      .layers = 2,
      .window = 1,
      .retain = 2};
  // Streamed: attention 1, attention 2, FFN 2: 19 ticks of loads in every token.
  const std::vector<BlockEvent> all = events(to_schedule(layered), 3);
  int loads = 0;
  for (const BlockEvent& e : all) loads += e.block == 1 && e.loaded ? 1 : 0;
  CHECK(loads == 0);
  CHECK(all[1].start == 5 + 1);  // as soon as attention 1 is computed
  CHECK(all[1].stall == 0);
  CHECK(all[2].load_start == 5 + 1);  // attention 1 held the window's one place until then
  const SteadyState found = find_steady_state(to_schedule(layered));
  CHECK(found.devices[0].load_time == 5 + 5 + 9);
}

TEST_CASE("study/steady state: the smaller window is never faster, early release never slower") {
  ScheduleDice dice(9);
  int wrong = 0;
  for (int i = 0; i < 2000; ++i) {
    MemorySchedule schedule = dice.any(3);
    double last = std::numeric_limits<double>::infinity();
    for (const std::int64_t window :
         {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, kUnlimited}) {
      for (StreamingDevice& device : schedule.devices) {
        device.window = window;
        device.release = model::ReleaseRule::late;
      }
      const double late = find_steady_state(schedule).token_time();
      for (StreamingDevice& device : schedule.devices) device.release = model::ReleaseRule::early;
      const double early = find_steady_state(schedule).token_time();
      if (early > late || late > last) ++wrong;
      last = late;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("study/steady state: a device without streamed blocks never waits") {
  const MemorySchedule schedule{
      .devices = {{.blocks = {{3, 0, Residence::none}, {4, 9, Residence::retained}}, .window = 1}},
      .reduce = {1, 1}};
  const SteadyState found = find_steady_state(schedule);
  CHECK(found.periodic);
  CHECK(found.steady());
  CHECK(found.token_time() == 3 + 1 + 4 + 1);
  CHECK(keeps_up(schedule));
}

TEST_CASE("study/steady state: a schedule that is none is the caller's error") {
  CHECK_THROWS_AS(find_steady_state({}), std::logic_error);
  CHECK_THROWS_AS(find_steady_state({.devices = {{.blocks = {{1, 1}}}}, .reduce = {1, 1}}),
                  std::logic_error);
  CHECK_THROWS_AS(find_steady_state({.devices = {{.blocks = {{-1, 1}}}}, .reduce = {1}}),
                  std::logic_error);
  CHECK_THROWS_AS(
      find_steady_state({.devices = {{.blocks = {{1, 1}}, .window = 0}}, .reduce = {1}}),
      std::logic_error);
  CHECK_THROWS_AS(
      find_steady_state({.devices = {{.blocks = {{Ticks{1} << 53, 1}}}}, .reduce = {1}}),
      std::logic_error);
}

}  // namespace tandem::study::testing::recurrence_test
