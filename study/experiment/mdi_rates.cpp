// MDI-LLM, section 4: tokens a second of recurrent pipelines on one to three Jetson TX2.

#include <algorithm>

#include "model/base/text_table.hpp"
#include "study/experiment/mdi.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

std::vector<std::string> remarks(const MdiBoard& board) {
  return {
      ("boards and network: scenarios/platforms/jetson-tx2x3.xml, from data sheets; blocks, "
       "samples and lengths as the thesis has them; prompts of a line break of NanoGPT, as it "
       "states, of 8 tokens in the later versions, assumed"),
      "a block's kernels take " + model::fixed(1e3 * board.block_s, 2) +
          " ms to launch (nanogpt-12 on one node), " + model::fixed(1e3 * board.cached_block_s, 2) +
          " ms in the version with caches (nanollama-304m on one node)",
      "products at " + model::fixed(1e-9 * board.flop_rate, 0) +
          " Gflop/s (gpt2-large on one node)",
      "a message takes " + model::fixed(1e3 * board.message_s, 1) +
          " ms of its ends' computing (nanogpt-12 on two nodes) and " +
          model::fixed(1e9 * board.message_s_per_byte, 0) +
          " ns a byte beside the wire (gpt2-medium on two): Python objects through sockets",
      ("NanoGPT's version sends in its processing loop (3.4.1), so that a message's bytes take its "
       "computing thread; the later ones send beside it"),
      ("without caches a step computes and sends its whole context, at most the model's, of "
       "which the head computes the last row; NanoGPT's is on the last node and computes and "
       "returns all rows"),
      ("three nodes generate three samples. The thesis: \"for the three-node case, we generate "
       "three "
       "samples and truncate the plot to 800 tokens\", and rates are \"evaluated on the full run "
       "(start to finish)\". 'as plotted' counts up to 800 tokens, 'all tokens' to the end, with "
       "longer contexts; of each printed rate the worse of both counts")};
}

}  // namespace

ExperimentReport mdi_rates(const Scenarios& scenarios, Progress& progress) {
  const MdiTestbed testbed = calibrated_mdi(scenarios);
  const model::Csv& table = testbed.rates;
  ExperimentReport report{
      .key_names = {"model", "nodes", "counted"}, .rows = {}, .remarks = remarks(testbed.board)};
  progress.expect(table.rows.size());
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    MdiRun run = mdi_run(table, i);
    const model::Transformer transformer = scenarios.model(run.model);
    const auto add = [&](const std::string& which) {
      report.rows.push_back(
          {.keys = {run.model, table.at(i, "nodes"), which},
           .quantity = "tokens_per_s",
           .paper = paper_reading(table, i, "tokens_per_s"),
           .tandem = Reading::number(mdi_rate(testbed.boards, testbed.board, transformer, run)),
           .calibrated = std::ranges::count(testbed.calibrated, i) > 0,
           .printed = run.model + ", " + table.at(i, "nodes") + " nodes"});
    };
    run.counted = mdi_counted(run);
    if (run.counted > 0) add("as plotted");
    run.counted = 0;
    add("all tokens");
    progress.advance(1);
  }
  return report;
}

}  // namespace tandem::study
