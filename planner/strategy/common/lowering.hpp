#pragma once

// A strategy is a lowering: plan and batch in, task graph of all devices out. Each strategy is one
// file in strategy/; this is their table.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/predict/analytic.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

struct Strategy {
  std::string name;     // as in `tandem plan --strategy`
  std::string summary;  // one line for --help
  // Whether heads and FFN columns are split over all devices, which an all-reduce joins. If not,
  // the master holds everything, and a plan's partition and allreduce are empty.
  bool splits = false;
  // Whether runs of layers are split over the devices, in stages (strategy/common/stages.hpp): then
  // a plan has a partition, and an allreduce only where a stage is of several devices.
  bool splits_layers = false;
  // Whether every device holds all heads and columns of all layers. A plan then has no partition,
  // but an allreduce, by which devices tell each other what they computed.
  bool replicates = false;
  // Whether each of those computes a part of them (Share::part), where rows are not parted: a plan
  // then has a partition, of the parts.
  bool divides_work = false;
  // Whether devices beside the master may hold rows of the LM head (strategy/common/head.hpp).
  bool splits_head = false;
  // Whether devices may stream weights through a window.
  bool streams = true;
  // Whether a step's rows are parted, so that which messages there are depends on the rows whose
  // result is asked for.
  bool parts_rows = false;
  bool tiles = false;  // whether Plan::tiles applies
  bool drops = false;  // whether Plan::sparse may be
  // Whether its places are then the ranks of Plan::layout, in their order; else the master's is the
  // last.
  bool places_are_ranks = false;
  // Whether losses by levels and ratios are measured of it: their rows lie with the master's last.
  [[nodiscard]] bool measures_losses() const { return drops && !places_are_ranks; }
  // Of such a one: whether devices may hold their parts alone, so that weights travel
  // (Plan::gather_weights).
  bool gathers = false;
  // The strategy that parts a prompt's rows over devices that share out the weights, which this one
  // does over devices that have them all (planner/search/sp_choice.hpp); empty: there is none.
  std::string with_split_weights{};
  // Whether a sequence's keys and values lie by positions at several devices, as the plan deals
  // those of its prompt (Share::part). Then it serves one request at a time, whose prompt has the
  // plan's length and which has at most as many new tokens.
  bool parts_cache = false;
  // Of new tokens whose prompt's keys and values lie by positions at several devices: whether these
  // may travel to each of them, and to the master once (Plan::decode_moves).
  bool moves_keys = false;
  bool migrates = false;
  // Whether devices may compute columns of the FFN of new tokens that are another's
  // (Share::part; planner/search/token_ffn.hpp).
  bool shares_tokens = false;
  std::string allreduce{};  // `tandem plan --allreduce`, unless said otherwise
  // The tasks of one step. They depend on the batch's structure (sequences, rows) only, not on
  // `past`, so one graph serves all steps of a structure (TaskGraph::advance).
  model::TaskGraph (*tasks)(const Plan& plan, const model::Batch& batch);
  // Throws Error unless the plan's shares are ones that `lower` can use.
  void (*check)(const Plan& plan);
  // What `device` declares with `share`, as for model::share_buffers, which none given is.
  std::vector<model::BufferDeclaration> (*buffers)(const Plan& plan, model::DeviceIndex device,
                                                   const model::Share& share,
                                                   bool streams_head) = nullptr;
  // Throws Error unless a run of `workload` can follow the plan; none given: of any lengths.
  void (*lengths)(const Plan& plan, const Workload& workload) = nullptr;
  // Throws Error unless schedulers of many requests can have their batches lowered by the plan;
  // none given: they can.
  void (*serves_many)(const Plan& plan) = nullptr;

  // What it declares, by `buffers` or without them.
  [[nodiscard]] std::vector<model::BufferDeclaration> buffers_of(const Plan& plan,
                                                                 model::DeviceIndex device,
                                                                 const model::Share& share,
                                                                 bool streams_head) const;
  // What plans may have in decode_moves.
  [[nodiscard]] std::vector<DecodeMoves> moves() const;
  // Whether every plan has an allreduce and a layout.
  [[nodiscard]] bool joins() const { return splits || replicates; }
  // Whether every plan has a partition.
  [[nodiscard]] bool divides() const {
    return splits || splits_layers || divides_work || parts_cache;
  }
  // Whether new tokens exchange nothing, so that a plan's one collective is of prompts.
  [[nodiscard]] bool joins_prompts_only() const { return replicates && !divides_work; }

  // The graph of one step: its tasks, and the announcements that devices must wait for which would
  // begin on their own (model/graph/announcement.hpp).
  [[nodiscard]] model::TaskGraph lower(const Plan& plan, const model::Batch& batch) const;
};

[[nodiscard]] const std::vector<Strategy>& strategies();
// The names of those that a property holds for, for errors: "'a' or 'b'".
[[nodiscard]] std::string strategies_that(bool (*holds)(const Strategy&));
// Throws Error naming the strategy and the known ones.
[[nodiscard]] const Strategy& find_strategy(const std::string& name);

// Whether devices share out the FFN of new tokens (Strategy::shares_tokens): some has columns.
[[nodiscard]] bool shares_token_ffn(const Plan& plan);

// Throws Error as the plan's strategy does for `workload` (Strategy::lengths), and for plans of one
// request (Strategy::serves_many).
void check_lengths(const Plan& plan, const Workload& workload);
void check_serves_many(const Plan& plan);

// One sequence of `prompt_tokens` (step 0; sampled unless it is an encoder's pass), or one new
// token after `past` positions.
[[nodiscard]] model::Batch prompt_batch(const Workload& workload);
[[nodiscard]] model::Batch decode_batch(std::int32_t past);
// A text of `rows` tokens whose last `sampled` next tokens are asked for.
[[nodiscard]] model::Batch scored_batch(std::int32_t rows, std::int32_t sampled);

// The steps of a generation: step 0 is the prompt (workload.prompt_tokens rows), each later step
// one new token. `plan` must outlive the result.
class GenerationSteps : public model::Steps {
 public:
  explicit GenerationSteps(const Plan& plan);
  // Workload other than the plan's (a run whose prompt has another length). Throws Error unless it
  // fits the model's context.
  GenerationSteps(const Plan& plan, Workload workload);
  [[nodiscard]] std::int32_t count() const override;
  const model::TaskGraph& graph(std::int32_t i) override;
  [[nodiscard]] bool any_order() const override { return true; }
  [[nodiscard]] std::optional<std::vector<model::Channel>> channels() override;

 private:
  const Plan* plan_;
  Workload workload_;
  std::unique_ptr<model::TaskGraph> prompt_;
  std::unique_ptr<model::TaskGraph> decode_;
};

}  // namespace tandem::planner
