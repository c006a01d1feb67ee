// MDI-LLM, figures 10 to 12 and 14 to 19: time against the number of tokens.

#include <algorithm>
#include <array>
#include <map>

#include "model/base/text_table.hpp"
#include "study/experiment/mdi.hpp"

namespace tandem::study {
namespace {

constexpr std::size_t kParts = 4;  // of a line: how long each takes shows its curvature

// The versions of MDI-LLM, in the order of the thesis.
constexpr std::array kVersions{"NanoGPT", "GPT-2", "with caches"};

const char* version_of(const MdiRun& run) {
  return kVersions[run.caches ? 2 : run.head_on_last ? 0 : 1];
}

struct Curvature {
  double least = 1e9;
  double most = 0.0;
};

std::string curvatures(const std::map<std::string, Curvature>& of) {
  std::string text;
  for (const char* version : kVersions) {
    const Curvature& ratios = of.at(version);
    text += std::string(text.empty() ? "" : "; ") + version + " " + model::fixed(ratios.least, 2) +
            " to " + model::fixed(ratios.most, 2);
  }
  return text;
}

}  // namespace

ExperimentReport mdi_times(const Scenarios& scenarios, Progress& progress) {
  const MdiTestbed testbed = calibrated_mdi(scenarios);
  const model::Csv& table = testbed.rates;
  ExperimentReport report{.key_names = {"model", "nodes", "tokens"}};
  std::map<std::string, Curvature> last_over_first;
  progress.expect(table.rows.size());
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    MdiRun run = mdi_run(table, i);
    run.counted = mdi_counted(run);
    const std::vector<double> times =
        mdi_token_times(testbed.boards, testbed.board, scenarios.model(run.model), run);
    const auto at = [&](std::size_t part) {
      return part == 0 ? 0.0 : times[times.size() * part / kParts - 1];
    };
    for (std::size_t part = 1; part <= kParts; ++part) {
      report.rows.push_back(
          {.keys = {run.model, table.at(i, "nodes"), std::to_string(times.size() * part / kParts)},
           .quantity = "time_s",
           .tandem = Reading::number(at(part))});
    }
    // One node makes a sample after the other: the curve of each is within its half.
    if (run.blocks.size() > 1) {
      const double ratio = (at(kParts) - at(kParts - 1)) / at(1);
      Curvature& of = last_over_first[version_of(run)];
      of = {std::min(of.least, ratio), std::max(of.most, ratio)};
    }
    progress.advance(1);
  }
  report.remarks = {
      "boards, blocks, samples and constants of mdi-rates; times of the tokens of all samples "
      "together; the figures print no numbers",
      "one node makes one sample after the other, as the thesis's did; with three nodes lines end "
      "at 2000 and 800 tokens, with caches at 2400",
      "the last quarter of a line takes so many times as long as the first, on two and three "
      "nodes: " +
          curvatures(last_over_first) +
          ". The thesis: \"one of the most notable aspects\" of GPT-2's plots \"is the curvature "
          "of "
          "the lines\", and models with caches \"do not incur in the generation slowdown\""};
  return report;
}

}  // namespace tandem::study
