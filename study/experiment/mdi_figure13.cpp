// MDI-LLM, figure 13: jitter of messages in tokens' times, and what samples that wait absorb of it.

#include <algorithm>
#include <array>
#include <cmath>

#include "model/base/statistics.hpp"
#include "model/base/text_table.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "sim/replay/replay.hpp"
#include "study/experiment/mdi.hpp"

namespace tandem::study {
namespace {

constexpr std::string_view kModel = "nanogpt-12";
constexpr std::int64_t kSampleTokens = 120;  // of each sample; contexts are full at the model's 128
constexpr std::int64_t kLeftOut = 20;  // of the first of each: until all samples are under way
constexpr std::array kJitters{0.0, 0.005, 0.010};  // mean of each of a message's two cables
constexpr std::uint64_t kSeed = 13;
constexpr double kOneJitter = 0.005;

struct Tokens {
  double rate = 0.0;           // a second, in the steady state
  double interval_sd_s = 0.0;  // from token to token of all samples together
};

Tokens simulated(const MdiTestbed& testbed, const model::Transformer& transformer,
                 const MdiRun& run, double jitter_s) {
  const model::Cluster boards = with_links(
      testbed.boards, [&](model::Link& link) { link.jitter = model::Seconds{jitter_s}; });
  const planner::Plan plan = mdi_plan(boards, testbed.board, transformer, run);
  MdiRounds rounds(run, mdi_prompt(run), transformer.max_context);
  const std::unique_ptr<model::GraphSource> graphs = mdi_graphs(plan, run);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  sim::replay_scheduled(plan.cluster, plan.cost_model(), rounds, *graphs, recorder, kSeed);
  std::vector<double> times;
  for (const model::ServedStep& step : recorder.served())
    times.insert(times.end(), step.sampled_s.begin(), step.sampled_s.end());
  std::ranges::sort(times);
  const auto begin = times.begin() + kLeftOut * run.samples;
  std::vector<double> intervals;
  for (auto t = begin + 1; t != times.end(); ++t) intervals.push_back(*t - *(t - 1));
  const double mean = model::mean(intervals);
  double squares = 0.0;
  for (const double interval : intervals) squares += (interval - mean) * (interval - mean);
  return {.rate = 1.0 / mean,
          .interval_sd_s = std::sqrt(squares / static_cast<double>(intervals.size()))};
}

}  // namespace

ExperimentReport mdi_figure13(const Scenarios& scenarios, Progress& progress) {
  const MdiTestbed testbed = calibrated_mdi(scenarios);
  const model::Transformer transformer = scenarios.model(std::string(kModel));
  ExperimentReport report{
      .key_names = {"nodes", "samples", "jitter_ms"},
      .rows = {},
      .remarks = {"nanogpt-12 on the boards of mdi-rates, by SimGrid; each cable that a message "
                  "passes delays it by an exponentially distributed time of that mean",
                  "the thesis prints no numbers: its line of one node is straight, of two jagged, "
                  "of three more so; with more samples than nodes some wait at every node, so that "
                  "a late message delays no step"}};
  std::string one;
  constexpr std::array kNodes{"1", "2", "3"};
  progress.expect(kNodes.size());
  for (const std::string_view nodes : kNodes) {
    MdiRun run = mdi_run(testbed.rates, mdi_row(testbed.rates, kModel, nodes));
    run.tokens = kSampleTokens;
    const auto least = static_cast<std::int64_t>(run.blocks.size());
    for (const std::int64_t samples : {least, least + 1, 2 * least, 4 * least}) {
      if (least == 1 && samples > 1) break;
      run.samples = samples;
      for (const double jitter : kJitters) {
        const Tokens tokens = simulated(testbed, transformer, run, jitter);
        if (jitter == kOneJitter && samples == least && least > 1)
          one += std::string(one.empty() ? "" : ", ") + model::fixed(tokens.rate, 1) + " on " +
                 std::string(nodes) + " nodes (printed: " +
                 testbed.rates.at(mdi_row(testbed.rates, kModel, nodes), "tokens_per_s") + ")";
        const std::vector<std::string> keys{std::string(nodes), std::to_string(samples),
                                            model::fixed(1e3 * jitter, 0)};
        report.rows.push_back(
            {.keys = keys, .quantity = "tokens_per_s", .tandem = Reading::number(tokens.rate)});
        report.rows.push_back({.keys = keys,
                               .quantity = "interval_sd_ms",
                               .tandem = Reading::number(1e3 * tokens.interval_sd_s)});
      }
    }
    progress.advance(1);
  }
  report.remarks.push_back("one jitter for both: with 5 ms nanogpt-12 makes " + one +
                           " tokens/s; two nodes set the constants of messages without jitter, so "
                           "that jitter there counts twice");
  return report;
}

}  // namespace tandem::study
