#pragma once

// Flags of a workload of many requests, which plan, simulate and run share.

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags/options.hpp"
#include "model/result.hpp"
#include "model/transformer.hpp"
#include "planner/plan.hpp"
#include "planner/serving/inference_request.hpp"
#include "planner/serving/policy.hpp"

namespace tandem::cli {

struct Served {
  std::vector<planner::InferenceRequest> requests;
  const planner::Policy* policy = nullptr;
  std::int64_t chunk = 0;   // 0: prompts are read whole
  bool best_chunk = false;  // chunk is to be found by prediction
  std::int64_t steps = 0;   // in flight at most; 0: auto
  bool samples = false;     // the requests are samples of one
};

// The flags --workload, --samples, --policy, --chunk and --in-flight.
[[nodiscard]] std::vector<Flag> workload_flags();

// What --workload says, its prompts counted by the tokenizer of `folder`, or GGUF file (empty:
// prompts that are texts are refused, `remedy` says what to do); or as many requests as --samples
// says, each like what `sample` returns, which is called then only; nothing without either flag,
// which the others then lack. Throws Error for a workload that `model` can't serve.
[[nodiscard]] std::optional<Served> served_workload(
    const Options& options, const model::Transformer& model, const std::filesystem::path& folder,
    const std::string& remedy, const std::function<planner::InferenceRequest()>& sample);

// Finds the chunk that `plan` is best served with, if that was asked for.
void find_chunk(Served& served, const planner::Plan& plan);

// "3 requests, continuous, in chunks of 16".
[[nodiscard]] std::string to_text(const Served& served);

// Prints a line a request, and the throughput.
void print_requests(const model::Result& result, std::ostream& out);

}  // namespace tandem::cli
