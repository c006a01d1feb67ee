// Proposition 5 against the recurrence's memory.

#include <algorithm>

#include "study/propositions/draw_numbers.hpp"
#include "study/propositions/draws.hpp"
#include "study/steady_state/residency.hpp"

namespace tandem::study {
namespace {

constexpr const char* kStated = "as stated";

struct MemoryDraw {
  WindowGeometry geometry;
  bool master = true;
  std::int64_t layers = 1;
  std::int64_t window = 1;
  model::ReleaseRule release = model::ReleaseRule::early;
  Ticks elements_per_tick = 1;  // of the disk; 0: it takes no time
  std::vector<Ticks> compute;   // of an attention, FFN, preprocess and postprocess block
  Ticks reduce = 0;

  [[nodiscard]] std::int64_t blocks() const { return 2 * layers + (master ? 2 : 0); }
};

MemoryDraw draw(DrawNumbers& numbers) {
  MemoryDraw drawn;
  WindowGeometry& g = drawn.geometry;
  g.shares = numbers.in(1, 4);
  g.share = numbers.in(1, g.shares);
  g.heads = g.shares * numbers.in(1, 4);
  g.kv_heads = std::max<std::int64_t>(1, g.heads / numbers.in(1, 4));
  g.hidden = g.heads * 4 * numbers.in(1, 4);
  g.intermediate = numbers.in(1, 4) * g.hidden;
  g.vocab = numbers.in(0, 1) == 0 ? numbers.in(1, 64) * 16 : numbers.in(10, 80) * g.hidden;
  drawn.master = numbers.in(0, 1) == 0;
  drawn.layers = numbers.in(1, 6);
  drawn.window = numbers.window();
  drawn.release = numbers.rule();
  drawn.reduce = numbers.in(1, 39);
  for (int i = 0; i < 4; ++i) drawn.compute.push_back(numbers.in(1, 39));
  // A fifth to five times (4 to 100 twentieths) the rate that loads a layer in 80 ticks, a layer's
  // mean time.
  const std::int64_t layer = g.blocks().attention() + g.blocks().ffn();
  drawn.elements_per_tick = std::max<std::int64_t>(1, layer * numbers.in(4, 100) / 1600);
  return drawn;
}

std::vector<std::int64_t> sizes_of(const MemoryDraw& drawn) {
  std::vector<std::int64_t> sizes;
  if (drawn.master) sizes.push_back(drawn.geometry.blocks().preprocess());
  for (std::int64_t l = 0; l < drawn.layers; ++l) {
    sizes.push_back(drawn.geometry.blocks().attention());
    sizes.push_back(drawn.geometry.blocks().ffn());
  }
  if (drawn.master) sizes.push_back(drawn.geometry.blocks().postprocess());
  return sizes;
}

MemorySchedule schedule_of(const MemoryDraw& drawn) {
  // A window with room for all equals one of as many blocks as there are: none is loaded twice.
  const std::int64_t window = std::min(drawn.window, drawn.blocks());
  MemorySchedule schedule{.devices = {{.window = window, .release = drawn.release}}, .reduce = {}};
  const std::vector<std::int64_t> sizes = sizes_of(drawn);
  for (std::size_t b = 0; b < sizes.size(); ++b) {
    const bool first = drawn.master && b == 0;
    const bool last = drawn.master && b + 1 == sizes.size();
    const bool attention = (b + (drawn.master ? 1 : 0)) % 2 == 0;
    const std::size_t kind = first ? 2 : last ? 3 : attention ? 0 : 1;
    const Ticks load = drawn.elements_per_tick == 0
                           ? 0
                           : (sizes[b] + drawn.elements_per_tick - 1) / drawn.elements_per_tick;
    schedule.devices[0].blocks.push_back({drawn.compute[kind], load, Residence::streamed});
    schedule.reduce.push_back(first || last ? 0 : drawn.reduce);
  }
  return schedule;
}

std::int64_t says(const MemoryDraw& drawn) {
  return drawn.master ? proposition5_master(drawn.geometry.blocks(), drawn.window)
                      : proposition5_worker(drawn.geometry.blocks(), drawn.window);
}

std::int64_t has(const MemoryDraw& drawn) {
  constexpr std::int64_t kTokens = 12;
  return simulated_peak(schedule_of(drawn), 0, sizes_of(drawn), kTokens);
}

std::int64_t largest_window(const MemoryDraw& drawn) {
  return window_peak(schedule_of(drawn).devices[0], sizes_of(drawn));
}

// An FFN block at least as large as an attention block, and a vocabulary that makes embedding and
// head at least as large as the FFN block.
void restore_largest(WindowGeometry& g) {
  while (g.blocks().ffn() < g.blocks().attention()) g.intermediate += g.hidden;
  g.vocab = std::max(g.vocab, g.blocks().ffn() / g.hidden + 1);
}

bool agree(MemoryDraw drawn, Assumptions restored) {
  if (restored.has(Assumption::model)) drawn.window = std::min(drawn.window, drawn.blocks());
  if (restored.has(Assumption::largest)) restore_largest(drawn.geometry);
  if (restored.has(Assumption::full_window)) drawn.elements_per_tick = 0;
  return says(drawn) == has(drawn);
}

std::string to_text(const MemoryDraw& drawn) {
  const WindowGeometry& g = drawn.geometry;
  return std::string(drawn.master ? "master" : "worker") + ", L " + std::to_string(drawn.layers) +
         ", pre " + std::to_string(g.blocks().preprocess()) + ", attn " +
         std::to_string(g.blocks().attention()) + ", ffn " + std::to_string(g.blocks().ffn()) +
         ", post " + std::to_string(g.blocks().postprocess()) + ": says " +
         std::to_string(says(drawn)) + ", has " + std::to_string(has(drawn));
}

}  // namespace

std::vector<Tally> run_memory_draws(const DrawsOptions& options) {
  const std::string question = "the most weights in memory at once";
  Tally printed{.name = "Proposition 5", .question = question};
  Tally exact{.name = "largest window, cyclic", .question = question};
  DrawNumbers numbers(options.seed ^ 0x5eedU);
  for (std::int64_t i = 0; i < options.draws; ++i) {
    MemoryDraw drawn = draw(numbers);
    if (drawn.window == kUnlimited) drawn.window = drawn.blocks();  // "all"
    const std::int64_t found = has(drawn);
    const auto add = [&](Tally& tally, std::int64_t stated,
                         const std::vector<Assumption>& candidates, const auto& agrees) {
      ClassKey key{.says = kStated,
                   .is = stated == found  ? kStated
                         : stated < found ? "more"
                                          : "less",
                   .broken = {},
                   .window = window_text(drawn.window),
                   .release = rule_text(drawn.release),
                   .devices = drawn.master ? "master" : "worker"};
      if (stated != found) key.broken = explain(candidates, agrees);
      tally.add(key, [&] { return to_text(drawn); });
    };
    add(printed, says(drawn), {Assumption::model, Assumption::largest, Assumption::full_window},
        [&](Assumptions restored) { return agree(drawn, restored); });
    const std::int64_t largest = largest_window(drawn);
    add(exact, largest, {Assumption::full_window}, [&](Assumptions) {
      MemoryDraw fast = drawn;
      fast.elements_per_tick = 0;
      return has(fast) == largest;
    });
  }
  return {printed, exact};
}

}  // namespace tandem::study
