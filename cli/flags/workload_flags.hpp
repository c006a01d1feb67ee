#pragma once

// Flags of a workload of many requests, and what a plan keeps of them.

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags/options.hpp"
#include "model/report/result.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/serving/policy/policy.hpp"

namespace tandem::cli {

struct Served {
  std::vector<planner::InferenceRequest> requests;
  const planner::Policy* policy = nullptr;
  std::int64_t chunk = 0;        // 0: prompts are read whole
  bool best_chunk = false;       // chunk is to be found by prediction
  std::int64_t steps = 0;        // in flight at most; 0: auto
  bool samples = false;          // the requests are samples of one
  bool shares_prefixes = false;  // where the plan can
  std::string sha256{};          // of the workload file; empty: samples
  bool raw_prompts = false;      // special tokens in its texts were encoded as plain text
  // Returns whether it is one request, which is reported like a request without a workload.
  [[nodiscard]] bool is_one() const { return samples && requests.size() == 1; }
};

// What a command knows of the requests that its flags ask for.
struct WorkloadUse {
  const model::Transformer& model;
  std::filesystem::path tokenizer{};  // model folder or GGUF file; empty: none
  std::string remedy{};               // for prompts that are texts, without a tokenizer
  // Returns the request that samples are like; called only if there are any.
  std::function<planner::InferenceRequest()> sample;
  const planner::PlannedService* planned = nullptr;  // of the plan file; null: none
  std::filesystem::path plan{};                      // that file
  bool runs = false;   // whether prompts are needed, not only their lengths
  bool plans = false;  // whether --chunk may be of one request, without a workload
};

// The flags --workload, --samples, --policy, --chunk and --in-flight of `tandem plan`, and of
// commands that take a plan, which has their defaults.
[[nodiscard]] std::vector<Flag> workload_flags();
[[nodiscard]] std::vector<Flag> planned_workload_flags();

// Returns the requests that --workload or --samples ask for, or else those that the plan was made
// for; policy, chunk and steps in flight by flags, or else as planned. Nothing if there are neither
// flags nor a planned service. Prompts that are texts are counted by the tokenizer. Throws Usage
// for flags that contradict each other, Error for a workload that the model cannot serve, and for a
// planned workload file that has changed or, where prompts are needed, is not there.
[[nodiscard]] std::optional<Served> served_workload(const Options& options, const WorkloadUse& use);

// Decides whether the requests to `plan` share prefixes: by the flag, else if they state some.
// Throws Usage if the flag asks for what the plan cannot do.
void find_sharing(const Options& options, Served& served, const planner::Plan& plan);

// Finds the chunk that `plan` is best served with, if that was asked for.
void find_chunk(Served& served, const planner::Plan& plan);

// Where the workload file of the plan at `plan` is; empty if it is not there, or if the plan was
// made for samples.
[[nodiscard]] std::filesystem::path planned_file(const planner::PlannedService& planned,
                                                 const std::filesystem::path& plan);

// What a plan that is written to `plan` (nothing: standard output) keeps of `served`, which came
// from flags.
[[nodiscard]] planner::PlannedService service_of(const Options& options, const Served& served,
                                                 const std::optional<std::string>& plan);

// Returns the service of a plan that is run; null, with a remark, for one request alone: of an
// encoder, with --logits, and with a prompt in place of a workload file.
[[nodiscard]] const planner::PlannedService* service_to_run(const Options& options,
                                                            const planner::PlanFile& file);

// Whether a run knows the prompts of all requests; samples get theirs there.
[[nodiscard]] bool has_prompts(const Served& served);

// Throws Usage for flags of one request, Error unless the plan can run all of `served`.
void check_runs(const Options& options, const planner::Plan& plan, const Served& served);

// "3 requests, continuous, prompts in chunks of 16".
[[nodiscard]] std::string to_text(const Served& served);

}  // namespace tandem::cli
