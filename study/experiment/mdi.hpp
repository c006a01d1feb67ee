#pragma once

// MDI-LLM's system on its testbed, as its tables are made again from: how fast samples that go
// round a ring of boards make tokens, with and without key/value caches, and the constants that the
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
  std::int64_t samples = 1;            // that go round together
  std::int64_t tokens = 1;             // of each
  std::int64_t counted = 0;  // tokens of all together at which the clock stops; 0: at the last
  bool caches = true;        // keys and values; else every step computes its whole context
  model::WeightFormat format = model::WeightFormat::f32;
  // The finisher holds final norm and head, and returns logits of the whole context, not the
  // starter.
  bool head_on_last = false;
};

// The run that row `i` of mdi_rates.csv or mdi_memory.csv is of, but for `counted`; the latter
// states nothing of samples. Throws Error naming the file if the row is not well-formed.
[[nodiscard]] MdiRun mdi_run(const model::Csv& table, std::size_t i);

// A board of the testbed with its software, as far as the thesis's rates show it.
struct MdiBoard {
  double flop_rate = 1.0;         // of products
  double block_s = 0.0;           // to launch a block's kernels, if the GPU is not slower
  double cached_block_s = 0.0;    // the same of the version with caches
  double message_s = 0.0;         // of both computing threads together, to handle a message
  double message_s_per_byte = 0;  // of the channel, beside its wire
};

// The steps of samples that go round, each with its prompt first: with caches a row a step, without
// them all of the context so far, up to the model's, from which the first tokens slide out.
//   prompt   tokens of each sample
// A step follows when the one before it of the same sample has sampled.
class MdiRounds : public model::Scheduler {
 public:
  MdiRounds(const MdiRun& run, std::int64_t prompt, std::int64_t max_context);
  model::Decision next(double now, std::span<const model::StepOutcome> ended) override;
  // When the last counted token was sampled, in seconds.
  [[nodiscard]] double end_s() const { return end_s_; }
  [[nodiscard]] std::int64_t counted() const { return counted_; }

 private:
  MdiRun run_;
  std::int64_t prompt_;
  std::int64_t max_context_;
  std::int64_t counted_;             // tokens until the clock stops
  std::vector<std::int64_t> made_;   // tokens by sample
  std::vector<std::int32_t> ready_;  // samples that wait for a step, in turn
  std::vector<std::int32_t> of_;     // the sample of each step
  std::int64_t ended_ = 0;
  double end_s_ = 0.0;
};

// The boards' plan: the run's blocks, one after the other, on the first of `boards`.
[[nodiscard]] planner::Plan mdi_plan(const model::Cluster& boards, const MdiBoard& board,
                                     const model::Transformer& transformer, const MdiRun& run);

// The steps' graphs: the plan's, and without caches the head's tasks of all rows, as the finisher
// of MdiRun::head_on_last has them. `plan` and `run` outlive it.
[[nodiscard]] std::unique_ptr<model::GraphSource> mdi_graphs(const planner::Plan& plan,
                                                             const MdiRun& run);

// Tokens a second of `run`, by the analytic evaluator: nobody shares a link in a ring on a switch.
[[nodiscard]] double mdi_rate(const model::Cluster& boards, const MdiBoard& board,
                              const model::Transformer& transformer, const MdiRun& run);

// The testbed, with the constants that rows of mdi_rates.csv give it.
struct MdiTestbed {
  model::Cluster boards;
  MdiBoard board{};
  model::Csv rates{};
  std::vector<std::size_t> calibrated{};  // rows of `rates` that they come from
};
[[nodiscard]] MdiTestbed calibrated_mdi(const Scenarios& scenarios);

// The row of `model` on so many nodes in a table of the thesis. Throws Error if there is none.
[[nodiscard]] std::size_t mdi_row(const model::Csv& table, std::string_view model,
                                  std::string_view nodes);

// Tokens of each sample's prompt, which the thesis does not state: its plots begin with few.
inline constexpr std::int64_t kMdiPrompt = 8;

}  // namespace tandem::study
