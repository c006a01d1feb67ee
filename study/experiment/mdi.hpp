#pragma once

// MDI-LLM's system on its testbed, for reproducing its tables: the rate of tokens of samples that
// circulate through a ring of boards, with and without key/value caches, and the constants that the
// thesis does not state. D. Macario, MDI-LLM, Politecnico di Torino and University of Illinois
// Chicago, 2024

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/csv.hpp"
#include "model/cluster/cluster.hpp"
#include "model/graph/scheduler.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/plan/plan.hpp"
#include "study/experiment/experiment.hpp"

namespace tandem::study {

// A run of the thesis.
struct MdiRun {
  std::string model;
  std::vector<std::int64_t> blocks{};  // by node, the starter first
  std::int64_t samples = 1;            // in circulation
  std::int64_t tokens = 1;             // of each
  std::int64_t counted = 0;  // number of tokens of all samples at which the clock stops; 0: all
  bool caches = true;        // of keys and values; else every step computes its whole context
  model::WeightFormat format = model::WeightFormat::f32;
  // The finisher, instead of the starter, holds final norm and head, and returns logits of the
  // whole context.
  bool head_on_last = false;
  bool sends_in_loop = false;  // the computing thread sends messages, not one beside it
};

// Returns the run of row `i` of mdi_rates.csv or mdi_memory.csv, except for `counted`; the latter
// states no samples. Throws Error naming the file if the row is malformed.
[[nodiscard]] MdiRun mdi_run(const model::Csv& table, std::size_t i);

// A board of the testbed with its software, as inferred from the thesis's rates.
struct MdiBoard {
  double flop_rate = 1.0;         // of products
  double block_s = 0.0;           // to launch a block's kernels, unless the GPU is slower
  double cached_block_s = 0.0;    // the same in the version with caches
  double message_s = 0.0;         // for handling a message, over both computing threads
  double message_s_per_byte = 0;  // of sending it, in addition to the wire
};

// The steps of circulating samples, each with its prompt first: with caches one row a step, without
// them the whole context so far, up to the model's, beyond which the first tokens are dropped.
//   prompt   tokens of each sample
// A step follows when the one before it of the same sample has sampled.
class MdiRounds : public model::Scheduler {
 public:
  MdiRounds(const MdiRun& run, std::int64_t prompt, std::int64_t max_context);
  model::Decision next(double now, std::span<const model::StepOutcome> ended) override;
  // Returns when each token up to the last counted one was sampled, in seconds.
  [[nodiscard]] const std::vector<double>& times_s() const { return times_s_; }
  [[nodiscard]] std::int64_t counted() const { return counted_; }

 private:
  MdiRun run_;
  std::int64_t prompt_;
  std::int64_t max_context_;
  std::int64_t counted_;             // tokens until the clock stops
  std::vector<std::int64_t> made_;   // tokens by sample
  std::vector<std::int32_t> ready_;  // samples that wait for a step, in order
  std::vector<std::int32_t> of_;     // the sample of each step
  std::int64_t ended_ = 0;
  std::vector<double> times_s_;
};

// Returns the boards' plan: the run's blocks, in order, on the first of `boards`.
[[nodiscard]] planner::Plan mdi_plan(const model::Cluster& boards, const MdiBoard& board,
                                     const model::Transformer& transformer, const MdiRun& run);

// Returns the steps' graphs: the plan's, and without caches the head's tasks of all rows, as on the
// finisher of MdiRun::head_on_last. `plan` and `run` outlive it.
[[nodiscard]] std::unique_ptr<model::GraphSource> mdi_graphs(const planner::Plan& plan,
                                                             const MdiRun& run);

// Returns where the thesis's plot of a run ends early, as three nodes make three samples where the
// others make two: tokens of all samples. 0: it does not.
[[nodiscard]] std::int64_t mdi_counted(const MdiRun& run);

// Returns when each counted token of all samples was sampled, in seconds from the start, by the
// analytic evaluator: a ring on a switch has no contention. One board makes one sample after the
// other.
[[nodiscard]] std::vector<double> mdi_token_times(const model::Cluster& boards,
                                                  const MdiBoard& board,
                                                  const model::Transformer& transformer,
                                                  const MdiRun& run);

// Returns tokens a second of `run`, from start to end of mdi_token_times.
[[nodiscard]] double mdi_rate(const model::Cluster& boards, const MdiBoard& board,
                              const model::Transformer& transformer, const MdiRun& run);

// The testbed, with constants calibrated by rows of mdi_rates.csv.
struct MdiTestbed {
  model::Cluster boards;
  MdiBoard board{};
  model::Csv rates{};
  std::vector<std::size_t> calibrated{};  // the rows of `rates` used for calibration
};
[[nodiscard]] MdiTestbed calibrated_mdi(const Scenarios& scenarios);

// Returns the row of `model` on so many nodes in a table of the thesis. Throws Error if there is
// none.
[[nodiscard]] std::size_t mdi_row(const model::Csv& table, std::string_view model,
                                  std::string_view nodes);

// Returns the tokens of each sample's prompt: a line break in NanoGPT's version ("until now,
// generation would start from a single \n token", 3.4.1), some words, which the thesis does not
// state, in the later ones.
[[nodiscard]] std::int64_t mdi_prompt(const MdiRun& run);

}  // namespace tandem::study
