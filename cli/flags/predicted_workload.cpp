#include "cli/flags/predicted_workload.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "cli/files/scenarios.hpp"
#include "cli/flags/workload_flags.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "model/base/error.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

// Returns the model folder or GGUF file that --tokenizer names; empty without it. Throws Error for
// a path without a tokenizer, with which every byte would count as a token.
fs::path named_tokenizer(const Options& options) {
  const std::optional<std::string> name = options.text("tokenizer");
  if (!name) return {};
  fs::path source = find_weights(*name);
  const bool file = exec::is_gguf(source);
  for (const char* const part :
       {"config.json", "tokenizer.model", "tokenizer.json", "vocab.json", "vocab.txt"}) {
    std::error_code ignored;
    if (file || fs::exists(source / part, ignored)) return source;
  }
  throw Error(
      "flag '--tokenizer': " + *name +
      ": neither a model folder nor a GGUF file, expected one with the tokenizer that is to "
      "count the prompts' tokens; check the path");
}

}  // namespace

std::vector<Flag> predicted_workload_flags() {
  std::vector<Flag> flags = planned_workload_flags();
  flags.push_back(
      {"tokenizer", "DIR", "model folder or GGUF file, for a workload whose prompts are texts"});
  flags.push_back({"raw-prompt", "", "special tokens written in them (\"</s>\") are plain text"});
  return flags;
}

std::optional<study::ServedWorkload> predicted_workload(const Options& options,
                                                        const planner::PlanFile& file,
                                                        const fs::path& path) {
  const planner::Plan& plan = file.plan;
  std::optional<Served> served = served_workload(
      options, {.model = plan.model,
                .tokenizer = named_tokenizer(options),
                .remedy = "give prompt_tokens, or '--tokenizer' a model folder or GGUF file",
                .sample =
                    [&] {
                      return planner::InferenceRequest{.id = {},
                                                       .prompt_tokens = plan.workload.prompt_tokens,
                                                       .new_tokens = plan.workload.new_tokens};
                    },
                .planned = file.service ? &*file.service : nullptr,
                .plan = path});
  if (!options.has("workload"))
    options.refuse({"tokenizer", "raw-prompt"}, "without '--workload', whose prompts they are for");
  if (!served) return std::nullopt;
  if (std::ranges::none_of(served->requests, [](const auto& r) { return r.prompt.has_value(); }))
    options.accept_idle({"tokenizer", "raw-prompt"}, "as no prompt of the workload is a text");
  find_sharing(options, *served, plan);
  find_chunk(*served, plan);
  return for_prediction(*served);
}

study::ServedWorkload for_prediction(const Served& served) {
  return {.requests = served.requests,
          .policy = served.policy,
          .chunk = served.chunk,
          .steps = served.steps,
          .schedule = {},
          .shares_prefixes = served.shares_prefixes};
}

std::string to_text(const study::ServedWorkload& served) {
  return to_text(Served{.requests = served.requests,
                        .policy = served.policy,
                        .chunk = served.chunk,
                        .steps = served.steps});
}

}  // namespace tandem::cli
