#include "study/propositions/draws.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "study/propositions/draw_numbers.hpp"
#include "study/steady_state/closed_form.hpp"
#include "study/steady_state/cycle_mean.hpp"
#include "study/steady_state/propositions.hpp"
#include "study/steady_state/recurrence.hpp"

namespace tandem::study {
namespace {

using model::ReleaseRule;

constexpr const char* kSteady = "steady";
constexpr const char* kStalling = "stalling";

std::string verdict(bool steady) { return steady ? kSteady : kStalling; }

// Times of 1 to 39 ticks; half of the draws have unequal devices.
LayeredSchedule draw_layers(DrawNumbers& numbers, bool retention) {
  LayeredSchedule drawn;
  drawn.layers = numbers.in(1, 6);
  drawn.reduce = numbers.in(1, 39);
  drawn.window = numbers.window();
  drawn.release = numbers.rule();
  if (retention) drawn.retain = numbers.in(1, 6);
  const std::int64_t devices = numbers.in(0, 1) == 0 ? 1 : numbers.in(2, 4);
  for (std::int64_t d = 0; d < devices; ++d)
    drawn.devices.push_back(
        {numbers.in(1, 39), numbers.in(1, 39), numbers.in(1, 39), numbers.in(1, 39)});
  return drawn;
}

std::string to_text(const LayeredSchedule& drawn) {
  std::string text = "L " + std::to_string(drawn.layers) + ", t_ar " +
                     std::to_string(drawn.reduce) + ", (t_attn t_ffn tau_attn tau_ffn)";
  for (const LayerTimes& t : drawn.devices)
    text += " (" + std::to_string(t.attention) + ' ' + std::to_string(t.ffn) + ' ' +
            std::to_string(t.load_attention) + ' ' + std::to_string(t.load_ffn) + ')';
  if (drawn.retain > 0) text += ", T " + std::to_string(drawn.retain);
  return text;
}

// A steady condition under test: its verdict on one device's times, and its assumptions.
struct Condition {
  std::function<bool(const LayeredSchedule&, const LayerTimes&)> says;
  std::int64_t window;  // that it is exact for
  ReleaseRule release;  // the same
  bool from_the_first;  // it is about the start, too
};

// Each device judges by its own times, as the paper's master and workers would.
std::optional<std::size_t> first_against(const Condition& condition, const LayeredSchedule& drawn) {
  for (std::size_t d = 0; d < drawn.devices.size(); ++d)
    if (!condition.says(drawn, drawn.devices[d])) return d;
  return std::nullopt;
}

bool found_steady(const SteadyState& found, bool from_the_first) {
  return found.steady() &&
         (!from_the_first || std::all_of(found.devices.begin(), found.devices.end(),
                                         [](const auto& d) { return d.startup_stall == 0.0; }));
}

std::size_t first_stalling(const SteadyState& found) {
  for (std::size_t d = 0; d < found.devices.size(); ++d)
    if (found.devices[d].stall_in_period > 0) return d;
  return 0;
}

// Returns whether condition and recurrence agree once `restored` holds.
bool agree(const Condition& condition, LayeredSchedule drawn, const SteadyState& as_drawn,
           Assumptions restored) {
  if (restored.has(Assumption::heterogeneity)) {
    const std::size_t deciding = first_against(condition, drawn).value_or(first_stalling(as_drawn));
    drawn.devices = {drawn.devices[deciding]};
  }
  if (restored.has(Assumption::window)) drawn.window = condition.window;
  if (restored.has(Assumption::release_rule)) drawn.release = condition.release;
  const bool start_up = restored.has(Assumption::start_up);
  // A condition about the start is tested on the start; others are tested without its effects.
  const Start start = start_up && !condition.from_the_first ? Start::warm : Start::cold;
  const SteadyState found = find_steady_state(to_schedule(drawn), start);
  return found_steady(found, start_up && condition.from_the_first) ==
         !first_against(condition, drawn).has_value();
}

std::vector<Assumption> candidates() {
  return {Assumption::release_rule, Assumption::window, Assumption::start_up,
          Assumption::heterogeneity};
}

ClassKey key_of(const LayeredSchedule& drawn, bool says, bool is) {
  return {.says = verdict(says),
          .is = verdict(is),
          .broken = {},
          .window = window_text(drawn.window),
          .release = rule_text(drawn.release),
          .devices = drawn.devices.size() == 1 ? "equal" : "unequal"};
}

void judge(const Condition& condition, const LayeredSchedule& drawn, const SteadyState& found,
           Tally& tally) {
  const bool says = !first_against(condition, drawn).has_value();
  ClassKey key = key_of(drawn, says, found.steady());
  if (says != found.steady()) {
    key.broken = explain(candidates(), [&](Assumptions restored) {
      return agree(condition, drawn, found, restored);
    });
  }
  tally.add(key, [&] { return to_text(drawn); });
}

// The exact condition has one thing left that it does not see: the start.
void judge_exact(const LayeredSchedule& drawn, const MemorySchedule& schedule,
                 const SteadyState& found, Tally& tally) {
  const bool says = keeps_up(schedule);
  ClassKey key = key_of(drawn, says, found.steady());
  if (says != found.steady()) {
    key.broken = explain({Assumption::start_up}, [&](Assumptions) {
      return find_steady_state(schedule, Start::warm).steady() == says;
    });
  }
  tally.add(key, [&] { return to_text(drawn); });
}

void check(FormCheck& form, const SteadyState& found, Ticks token_time) {
  ++form.draws;
  if (!found.periodic || found.period_time != found.period_tokens * token_time) ++form.different;
}

void check_mean(FormCheck& form, const SteadyState& found, const MemorySchedule& schedule) {
  ++form.draws;
  const double mean = largest_cycle_mean(schedule);
  if (!(std::abs(mean - found.token_time()) <= 1e-9 * mean)) ++form.different;
}

// One draw in so many is also checked by Howard's algorithm, which is slower than the recurrence.
constexpr std::int64_t kMeans = 10;

}  // namespace

DrawsResult run_draws(const DrawsOptions& options) {
  const Condition third{.says =
                            [](const LayeredSchedule& drawn, const LayerTimes& times) {
                              return proposition3(times, drawn.reduce, drawn.layers);
                            },
                        .window = kUnlimited,
                        .release = ReleaseRule::early,
                        .from_the_first = false};
  const Condition fourth{
      .says = [](const LayeredSchedule& drawn,
                 const LayerTimes& times) { return proposition4(times, drawn.reduce); },
      .window = 2,
      .release = ReleaseRule::late,
      .from_the_first = false};
  const Condition sixth{.says =
                            [](const LayeredSchedule& drawn, const LayerTimes& times) {
                              return proposition6(times, drawn.reduce, drawn.layers, drawn.retain);
                            },
                        .window = kUnlimited,
                        .release = ReleaseRule::early,
                        .from_the_first = true};
  const std::string after = "no device waits for its disk after the start-up";
  Tally loose{.name = "Proposition 3", .question = after};
  Tally tight{.name = "Proposition 4", .question = after};
  Tally exact{.name = "exact condition", .question = after};
  Tally retained{.name = "Proposition 6", .question = after};
  Tally exact_retained{.name = "exact condition, retention", .question = after};
  FormCheck layers{.name = "layers * max(C1, B)"};
  FormCheck unlimited{.name = "max(C, D), unlimited windows, retention"};
  FormCheck mean{.name = "largest cycle mean"};
  DrawNumbers numbers(options.seed);
  for (std::int64_t i = 0; i < options.draws; ++i) {
    const LayeredSchedule drawn = draw_layers(numbers, false);
    const MemorySchedule schedule = to_schedule(drawn);
    const SteadyState found = find_steady_state(schedule);
    judge(third, drawn, found, loose);
    judge(fourth, drawn, found, tight);
    judge_exact(drawn, schedule, found, exact);
    check(layers, found, layered_token_time(drawn));

    const LayeredSchedule with_retention = draw_layers(numbers, true);
    const MemorySchedule streaming = to_schedule(with_retention);
    const SteadyState settled = find_steady_state(streaming);
    judge(sixth, with_retention, settled, retained);
    judge_exact(with_retention, streaming, settled, exact_retained);
    if (with_retention.window == kUnlimited)
      check(unlimited, settled, unlimited_token_time(streaming));
    if (i % kMeans == 0) check_mean(mean, settled, streaming);
  }
  std::vector<Tally> memory = run_memory_draws(options);
  return {.tallies = {loose, tight, exact, memory[0], memory[1], retained, exact_retained},
          .forms = {layers, unlimited, mean}};
}

}  // namespace tandem::study
