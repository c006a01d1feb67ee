#pragma once

// A strategy is a lowering: plan and batch in, task graph of all devices out. Each strategy is one
// source of planner/strategy/, and a line of the list in its CMakeLists.txt.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/predict/analytic.hpp"
#include "planner/plan/plan.hpp"
#include "planner/strategy/common/sharding.hpp"

namespace tandem::planner {

struct Strategy {
  std::string name;     // as in `tandem plan --strategy`
  std::string summary;  // what it splits, in a few words for --help
  Sharding sharding{};
  std::string allreduce{};  // of `tandem plan` without --allreduce
  // The tasks of one step. They depend on the batch's structure (sequences, rows) only, not on
  // `past`, so one graph serves all steps of a structure (TaskGraph::advance).
  model::TaskGraph (*tasks)(const Plan& plan, const model::Batch& batch);
  // Throws Error unless the plan's shares are ones that `lower` can use.
  void (*check)(const Plan& plan);
  // The buffers of `device` with `share`; null: model::share_buffers.
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
  // Values of Plan::decode_moves. Keys and values move where they are cached by positions; with
  // sparse attention also those of a prompt whose rows are (measures_losses).
  [[nodiscard]] std::vector<DecodeMoves> moves() const;

  // The graph of one step: its tasks, the buffers that devices declare, and the announcements for
  // devices that would begin on their own (model/graph/announcement.hpp).
  [[nodiscard]] model::TaskGraph lower(const Plan& plan, const model::Batch& batch) const;
};

// All strategies, in the order of the list in planner/strategy/CMakeLists.txt.
[[nodiscard]] const std::vector<Strategy>& strategies();
// "a, b, c".
[[nodiscard]] std::string strategy_names();
// Names the strategies of which `holds` is true, for errors: "'a' or 'b'".
[[nodiscard]] std::string strategies_that(const std::function<bool(const Sharding&)>& holds);
// Throws Error naming the strategy and the known ones.
[[nodiscard]] const Strategy& find_strategy(const std::string& name);
// Of the plan's strategy.
[[nodiscard]] const Sharding& sharding_of(const Plan& plan);
// The name of the strategy that exchanges a prompt's rows as `strategy` does over devices that
// split the weights which it replicates (planner/search/sp_choice.hpp); empty if there is none.
[[nodiscard]] std::string with_split_weights(const Strategy& strategy);

// Whether a device has a part of the FFN's columns (Share::part).
[[nodiscard]] bool has_column_parts(const Plan& plan);
// Whether a device computes FFN columns of new tokens whose owner another is.
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
