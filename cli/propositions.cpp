// tandem propositions: where TPI-LLM's Propositions 3 to 6 hold.

#include "model/steady_state/propositions.hpp"

#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>

#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/propositions/draws.hpp"
#include "cli/table.hpp"
#include "model/steady_state/recurrence.hpp"

namespace tandem::cli {
namespace {

// TPI-LLM, section 3.3: Llama 2-7B on four laptops, milliseconds.
model::LayeredSchedule worked_example() {
  return {.devices = {{.attention = 11, .ffn = 17, .load_attention = 18, .load_ffn = 30}},
          .reduce = 14,
          .layers = 32,
          .window = 4};
}

std::string example_text() {
  model::LayeredSchedule example = worked_example();
  const model::LayerTimes& t = example.devices[0];
  const model::SteadyState found = find_steady_state(to_schedule(example));
  std::string text = "worked example (t_attn 11, t_ffn 17, t_ar 14, tau_attn 18, tau_ffn 30 ms): ";
  text += proposition4(t, example.reduce) ? "tight holds" : "tight fails (25 < 30)";
  text += proposition3(t, example.reduce, example.layers) ? ", loose holds (56 >= 48)"
                                                          : ", loose fails";
  text += "; w = 4: " + std::string(found.steady() ? "steady" : "stalling") + " after a stall of " +
          fixed(found.devices[0].startup_stall, 0) + " ms, " + fixed(found.token_time() / 32, 0) +
          " ms a layer";
  example.window = 2;
  example.release = model::ReleaseRule::late;
  const model::SteadyState narrow = find_steady_state(to_schedule(example));
  return text + "; w = 2, late release: a stall of " + fixed(narrow.stall() / 32, 0) +
         " ms in every layer";
}

std::string percent(std::int64_t part, std::int64_t whole) {
  return whole == 0
             ? "-"
             : fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 2) + "%";
}

void print_tallies(const DrawsResult& result, std::ostream& out) {
  Table verdicts({"condition against recurrence", "draws", "both steady", "both stalling",
                  "says steady, stalls", "says stalling, is steady", "agree"});
  Table sizes(
      {"size against recurrence", "draws", "as stated", "holds more", "holds less", "agree"});
  for (const Tally& tally : result.tallies) {
    const std::string draws = std::to_string(tally.count());
    const std::string agree = percent(tally.agreeing(), tally.count());
    const auto cell = [&](std::string_view says, std::string_view is) {
      return std::to_string(tally.count(says, is));
    };
    if (tally.count("as stated", "as stated") > 0) {
      sizes.add({tally.name, draws, cell("as stated", "as stated"), cell("as stated", "more"),
                 cell("as stated", "less"), agree});
    } else {
      verdicts.add({tally.name, draws, cell("steady", "steady"), cell("stalling", "stalling"),
                    cell("steady", "stalling"), cell("stalling", "steady"), agree});
    }
  }
  verdicts.print(out);
  out << '\n';
  sizes.print(out);
  out << '\n';
  Table classes({"disagreement", "says", "recurrence", "assumption that breaks", "draws", "share"});
  for (const Tally& tally : result.tallies) {
    std::map<std::tuple<std::string, std::string, std::string>, std::int64_t> grouped;
    for (const auto& [key, entry] : tally.classes)
      if (key.says != key.is) grouped[{key.says, key.is, to_text(key.broken)}] += entry.count;
    for (const auto& [group, count] : grouped)
      classes.add({tally.name, std::get<0>(group), std::get<1>(group), std::get<2>(group),
                   std::to_string(count), percent(count, tally.count())});
  }
  classes.print(out);
  out << '\n';
  Table forms({"token time, closed form", "draws", "differs from the recurrence"});
  for (const FormCheck& form : result.forms)
    forms.add({form.name, std::to_string(form.draws), std::to_string(form.different)});
  forms.print(out);
}

}  // namespace

int propositions_command(const Arguments& arguments, std::ostream& out) {
  const Options options(
      {.command = "propositions",
       .summary =
           "Holds TPI-LLM's Propositions 3 to 6 (sliding window, retention, peak memory) against\n"
           "the recurrence that they describe, on random times.",
       .positionals = {},
       .flags = {{"draws", "N", "random draws of each proposition [100000]"},
                 {"seed", "S", "of the draws [1]"}}},
      arguments);
  const DrawsOptions draws{
      .draws = options.integer_or("draws", 100'000, 1, 100'000'000),
      .seed = static_cast<std::uint64_t>(options.integer_or("seed", 1, 0, 1'000'000'000))};
  out << example_text() << "\n\n";
  const DrawsResult result = run_draws(draws);
  print_tallies(result, out);
  return 0;
}

}  // namespace tandem::cli
