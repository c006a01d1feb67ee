#include "study/steady_state/residency.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "tests/study/steady_state/steady_state_draws.hpp"

namespace tandem::study::testing::residency_test {
namespace {

// h 8, v 100, a 4, b 2, s 20, p 1/2: attention 2 (64 + 32) / 2 + 8, FFN 3 * 160 / 2 + 8.
constexpr WindowGeometry kGeometry{.hidden = 8,
                                   .vocab = 100,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .intermediate = 20,
                                   .share = 1,
                                   .shares = 2};

StreamingDevice device(std::size_t blocks, std::int64_t window) {
  return {.blocks = std::vector<BlockTimes>(blocks, BlockTimes{.compute = 3, .load = 1}),
          .window = window};
}

}  // namespace

TEST_CASE("study/residency: block sizes are those of TPI-LLM's table 4") {
  CHECK(kGeometry.blocks().preprocess() == 800);
  CHECK(kGeometry.blocks().attention() == 104);
  CHECK(kGeometry.blocks().ffn() == 248);
  CHECK(kGeometry.blocks().postprocess() == 808);
}

TEST_CASE("study/residency: Proposition 5 is the largest window while pre and post are largest") {
  const std::vector<std::int64_t> master{800, 104, 248, 104, 248, 104, 248, 808};
  const std::vector<std::int64_t> worker{104, 248, 104, 248, 104, 248};
  for (std::int64_t w = 1; w <= 8; ++w) {
    CAPTURE(w);
    CHECK(proposition5_master(kGeometry.blocks(), w) == window_peak(device(8, w), master));
  }
  for (std::int64_t w = 1; w <= 6; ++w) {
    CAPTURE(w);
    CHECK(proposition5_worker(kGeometry.blocks(), w) == window_peak(device(6, w), worker));
  }
}

TEST_CASE("study/residency: with a small vocabulary the largest window is elsewhere") {
  WindowGeometry small = kGeometry;
  small.vocab = 10;  // pre 80, post 88: smaller than an attention block
  const std::vector<std::int64_t> master{80, 104, 248, 104, 248, 88};
  SUBCASE("w = 1: an FFN block, 248; Proposition 5 says 88") {
    CHECK(window_peak(device(6, 1), master) == 248);
    CHECK(proposition5_master(small.blocks(), 1) == 88);
  }
  SUBCASE("w = 3: 248 + 104 + 248 = 600; Proposition 5 says 80 + 88 + 248 = 416") {
    CHECK(window_peak(device(6, 3), master) == 600);
    CHECK(proposition5_master(small.blocks(), 3) == 416);
  }
}

TEST_CASE("study/residency: retained blocks come on top, a window beyond the blocks holds all") {
  StreamingDevice retaining = device(4, 2);
  retaining.blocks[1].residence = Residence::retained;
  retaining.blocks[3].residence = Residence::none;
  CHECK(window_peak(retaining, {10, 100, 30, 7}) == 100 + 10 + 30);
  retaining.window = kUnlimited;
  CHECK(window_peak(retaining, {10, 100, 30, 7}) == 100 + 10 + 30);
  CHECK_THROWS_AS((void)window_peak(retaining, {1, 2, 3}), std::logic_error);
}

TEST_CASE("study/residency: a run never holds more than the largest window, a fast disk, as much") {
  ScheduleDice dice(12);
  int more = 0;
  int less = 0;
  for (int i = 0; i < 1000; ++i) {
    MemorySchedule schedule = dice.any(2);
    std::vector<std::int64_t> sizes;
    for (std::size_t b = 0; b < schedule.blocks(); ++b) sizes.push_back(dice.in(1, 1000));
    StreamingDevice& first = schedule.devices[0];
    std::int64_t streamed = 0;
    for (const BlockTimes& block : first.blocks)
      streamed += block.residence == Residence::streamed ? 1 : 0;
    if (streamed == 0) continue;
    first.window = dice.in(1, streamed);
    const std::int64_t bound = window_peak(first, sizes);
    if (simulated_peak(schedule, 0, sizes, 4) > bound) ++more;
    for (BlockTimes& block : first.blocks) block.load = 0;
    if (simulated_peak(schedule, 0, sizes, 4) != bound) ++less;
  }
  CHECK(more == 0);
  CHECK(less == 0);
}

}  // namespace tandem::study::testing::residency_test
