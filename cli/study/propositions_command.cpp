// tandem-study propositions: where TPI-LLM's Propositions 3 to 6 hold.

#include <filesystem>
#include <optional>
#include <ostream>

#include "cli/files/figure.hpp"
#include "cli/files/files.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/shown.hpp"
#include "model/base/text_table.hpp"
#include "study/propositions/propositions_report.hpp"
#include "study/steady_state/propositions.hpp"
#include "study/steady_state/recurrence.hpp"

namespace tandem::cli {
namespace {

// TPI-LLM, section 3.3: Llama 2-7B on four laptops, milliseconds.
study::LayeredSchedule worked_example() {
  return {.devices = {{.attention = 11, .ffn = 17, .load_attention = 18, .load_ffn = 30}},
          .reduce = 14,
          .layers = 32,
          .window = 4};
}

std::string example_text() {
  study::LayeredSchedule example = worked_example();
  const study::LayerTimes& t = example.devices[0];
  const study::SteadyState found = find_steady_state(to_schedule(example));
  std::string text = "worked example (t_attn 11, t_ffn 17, t_ar 14, tau_attn 18, tau_ffn 30 ms): ";
  text += study::proposition4(t, example.reduce) ? "tight holds" : "tight fails (25 < 30)";
  text += study::proposition3(t, example.reduce, example.layers) ? ", loose holds (56 >= 48)"
                                                                 : ", loose fails";
  text += "; w = 4: " + std::string(found.steady() ? "steady" : "stalling") + " after a stall of " +
          model::fixed(found.devices[0].startup_stall, 0) + " ms, " +
          model::fixed(found.token_time() / 32, 0) + " ms a layer";
  example.window = 2;
  example.release = model::ReleaseRule::late;
  const study::SteadyState narrow = find_steady_state(to_schedule(example));
  return text + "; w = 2, late release: a stall of " + model::fixed(narrow.stall() / 32, 0) +
         " ms in every layer";
}

}  // namespace

int propositions_command(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "propositions",
       .summary =
           "Holds TPI-LLM's Propositions 3 to 6 (sliding window, retention, peak memory) against\n"
           "the recurrence they describe, on random times, and the recurrence against SimGrid.\n"
           "In DIR: classes.csv, simulations.csv, boundary.csv, boundary.png, boundary.svg.",
       .positionals = {},
       .flags = {{"draws", "N", "random draws of each proposition [100000]"},
                 {"simulations", "N", "random schedules on SimGrid; 0: none [500]"},
                 {"seed", "S", "of the draws [1]"},
                 {"points", "FILE",
                  "points of replayed runs for the figure (CSV, see docs/reference/commands.md)"},
                 {"out", "DIR", "folder to write, made if need be"},
                 {"json", "", "print the result as JSON"},
                 {"quiet", "", "print nothing"}}},
      arguments);
  refuse_json_with_quiet(options);
  const study::DrawsOptions draws{
      .draws = options.integer_or("draws", 100'000, 1, 100'000'000),
      .seed = static_cast<std::uint64_t>(options.integer_or("seed", 1, 0, 1'000'000'000))};
  const std::int64_t simulations = options.integer_or("simulations", 500, 0, 1'000'000);
  const auto given = options.text("out");
  FileRoles files;
  files.reads(options, "points");
  if (given)
    files.writes_in(
        "flag '--out'", *given,
        {"classes.csv", "simulations.csv", "boundary.csv", "boundary.png", "boundary.svg"});
  files.check();
  study::PropositionsReport report{.example = example_text()};
  if (const auto points = options.text("points"))
    report.replayed = study::parse_boundary_points(read_file(*points), *points);
  const bool json = options.has("json");
  const bool table = !json && !options.has("quiet");
  options.settle();
  std::optional<std::filesystem::path> folder;
  if (given) folder = make_folder(*given);

  if (table) out << report.example << "\n\n" << std::flush;
  report.draws = study::run_draws(draws);
  report.simulations = study::run_simulations(simulations, draws.seed);
  report.boundary = study::boundary_series(simulations > 0, report.replayed);
  if (table) print_report(report, out);
  if (json) out << to_json(report);
  if (folder) {
    write_file(*folder / "classes.csv", classes_csv(report));
    write_file(*folder / "simulations.csv", simulations_csv(report));
    write_file(*folder / "boundary.csv", boundary_csv(report));
    out.flush();
    draw_figure("propositions.py", *folder / "boundary.csv", *folder / "boundary");
  }
  return report.sound() ? 0 : 3;
}

}  // namespace tandem::cli
