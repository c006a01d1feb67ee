#pragma once

// A strategy is a lowering from a plan and a batch to the task graph of all devices. Each strategy
// is one source of planner/strategy/ and one line of the list in its CMakeLists.txt.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/predict/analytic.hpp"
#include "planner/plan/plan.hpp"
#include "planner/strategy/common/sharding.hpp"

namespace tandem::planner {

// A paper or program whose parallelism is that of a strategy.
struct Namesake {
  std::string_view name;     // in lower case, "tpi-llm"
  std::string_view flags{};  // of `tandem plan` that come closer to it; empty: none
};

struct Strategy {
  std::string name;     // as in `tandem plan --strategy`
  std::string summary;  // what it splits, in a few words for --help
  std::vector<Namesake> namesakes{};
  Sharding sharding{};
  std::string allreduce{};  // default of `tandem plan --allreduce`
  // Returns the tasks of one step. They depend on the batch's structure (sequences, rows) only, not
  // on `past`, so one graph serves all steps of a structure (TaskGraph::advance).
  model::TaskGraph (*tasks)(const Plan& plan, const model::Batch& batch);
  // Throws Error unless `lower` supports the plan's shares.
  void (*check)(const Plan& plan);
  // Returns the buffers of `device` with `share`; null: model::share_buffers.
  std::vector<model::BufferDeclaration> (*buffers)(const Plan& plan, model::DeviceIndex device,
                                                   const model::Share& share,
                                                   bool streams_head) = nullptr;
  // Returns the fewest rows of a prompt's step that are computed as longer ones are: steps with
  // fewer send other messages. Null: as many as there are devices.
  std::int32_t (*least_split_rows)(const Plan& plan) = nullptr;
  // Throws Error unless a run of `workload` can follow the plan; null: any lengths.
  void (*lengths)(const Plan& plan, const Workload& workload) = nullptr;
  // Throws Error unless the plan can serve several requests; null: it can.
  void (*serves_many)(const Plan& plan) = nullptr;
  // Returns `batch` with all rows at one device, for each device, where schedulers place sequences
  // (model::Place): together they need the storage of any placed batch. Null: nothing is placed.
  std::vector<model::Batch> (*placed)(const Plan& plan, const model::Batch& batch) = nullptr;

  // Returns the device's declarations, from `buffers` or the default.
  [[nodiscard]] std::vector<model::BufferDeclaration> buffers_of(const Plan& plan,
                                                                 model::DeviceIndex device,
                                                                 const model::Share& share,
                                                                 bool streams_head) const;
  // Returns the supported values of Plan::decode_moves. Keys and values move if they are cached by
  // positions, or if sparse attention leaves a prompt's rows on several devices (measures_losses).
  [[nodiscard]] std::vector<DecodeMoves> moves() const;

  // Returns the graph of one step: tasks, declared buffers, and announcements for devices that
  // could start on their own (model/graph/announcement.hpp).
  [[nodiscard]] model::TaskGraph lower(const Plan& plan, const model::Batch& batch) const;
};

// Returns all strategies, in the order of the list in planner/strategy/CMakeLists.txt.
[[nodiscard]] const std::vector<Strategy>& strategies();
// "a, b, c".
[[nodiscard]] std::string strategy_names();
// Names the strategies that satisfy `holds`, for error messages: "'a' or 'b'".
[[nodiscard]] std::string strategies_that(const std::function<bool(const Sharding&)>& holds);
// Throws Error naming the strategy and the known ones.
[[nodiscard]] const Strategy& find_strategy(const std::string& name);
// Returns the sharding of the plan's strategy.
[[nodiscard]] const Sharding& sharding_of(const Plan& plan);
// Returns the strategy with the same exchange of a prompt's rows as `strategy`, but with split
// instead of replicated weights (planner/search/sp_choice.hpp); empty if there is none.
[[nodiscard]] std::string with_split_weights(const Strategy& strategy);

// Returns whether a device computes a part of the FFN's columns (Share::part).
[[nodiscard]] bool has_column_parts(const Plan& plan);
// Returns whether devices compute FFN columns of new tokens that another device owns.
[[nodiscard]] bool shares_token_ffn(const Plan& plan);

// Throws Error if the plan's strategy does not support `workload` (Strategy::lengths), or if the
// plan is for one request only (Strategy::serves_many).
void check_lengths(const Plan& plan, const Workload& workload);
void check_serves_many(const Plan& plan);

// Returns the batch of a prompt of one sequence (step 0; sampled unless it is an encoder's pass),
// or of one new token after `past` positions.
[[nodiscard]] model::Batch prompt_batch(const Workload& workload);
[[nodiscard]] model::Batch decode_batch(std::int32_t past);
// Returns the batch of a text of `rows` tokens of which the last `sampled` are sampled.
[[nodiscard]] model::Batch scored_batch(std::int32_t rows, std::int32_t sampled);

// The steps of a generation: step 0 is the prompt (workload.prompt_tokens rows), each later step
// one new token. `plan` must outlive the result.
class GenerationSteps : public model::Steps {
 public:
  explicit GenerationSteps(const Plan& plan);
  // With another workload than the plan's (a prompt of another length). Throws Error unless it fits
  // the model's context.
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
