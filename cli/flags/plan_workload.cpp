#include "cli/flags/plan_workload.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/files/scenarios.hpp"
#include "cli/flags/outcome.hpp"
#include "cli/flags/prompt.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "model/base/error.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/serving_plan.hpp"

namespace tandem::cli {

std::string with_stages() { return planner::strategies_that(&planner::Sharding::splits_layers); }

std::filesystem::path tokenizer_source(const std::string& model_name) {
  std::filesystem::path source = find_weights(model_name);
  if (std::filesystem::is_directory(source) || exec::is_gguf(source)) return source;
  return {};
}

namespace {

constexpr std::int64_t kUsualPrompt = 512;
constexpr std::int64_t kUsualNew = 128;

// Of `--prompt` or `--prompt-tokens`; nothing if neither is given.
std::optional<std::int64_t> prompt_tokens(const Options& options, const std::string& model_name,
                                          const model::Transformer& transformer) {
  const std::optional<std::string> text = options.text("prompt");
  if (!text) {
    options.refuse({"raw-prompt", "chat", "system"},
                   "without '--prompt', the text that it is about");
    if (!options.has("prompt-tokens")) return std::nullopt;
    return options.integer_or("prompt-tokens", kUsualPrompt, 1, 1 << 30);
  }
  if (options.has("prompt-tokens"))
    throw Usage("flags '--prompt' and '--prompt-tokens' contradict each other; give one");
  const std::filesystem::path source = tokenizer_source(model_name);
  if (source.empty())
    throw Error("model " + model_name +
                ": has no tokenizer to count the prompt's tokens with, expected a model folder or "
                "GGUF file; give '--prompt-tokens'");
  return static_cast<std::int64_t>(
      spoken_prompt(options, *exec::load_tokenizer(source, transformer), source, *text).size());
}

}  // namespace

planner::Workload lengths_of(const Options& options, const std::string& model_name,
                             const model::Transformer& transformer) {
  const std::optional<std::int64_t> prompt = prompt_tokens(options, model_name, transformer);
  const std::int64_t context = transformer.max_context;
  // A context that is too short for both is divided as they are.
  const std::int64_t room =
      prompt ? context - *prompt : context * kUsualNew / (kUsualPrompt + kUsualNew);
  planner::Workload workload{
      .prompt_tokens = prompt.value_or(kUsualPrompt),
      .new_tokens = new_tokens(options, transformer, std::clamp<std::int64_t>(room, 1, kUsualNew))};
  if (!prompt)
    workload.prompt_tokens =
        std::clamp<std::int64_t>(context - workload.new_tokens, 1, kUsualPrompt);
  return workload;
}

std::string shortening_text(const Options& options, const planner::Workload& workload,
                            const model::Transformer& transformer) {
  const bool prompt = !options.has("prompt") && !options.has("prompt-tokens") &&
                      workload.prompt_tokens < kUsualPrompt;
  const bool generated = !options.has("new-tokens") && workload.new_tokens < kUsualNew &&
                         transformer.architecture().generates();
  if (!prompt && !generated) return "";
  return "shortened to the model's context of " + std::to_string(transformer.max_context);
}

planner::Workload workload_of(const Options& options, const std::string& model_name,
                              const model::Transformer& transformer,
                              const std::optional<Served>& served) {
  if (served && !served->samples)
    options.refuse({"prompt-tokens", "prompt", "chat", "system", "new-tokens"},
                   "with '--workload', which says it for each request");
  if (served) return planner::typical_workload(served->requests);
  return lengths_of(options, model_name, transformer);
}

study::PromptReading prompt_reading(const Options& options, const model::Transformer& transformer,
                                    const std::string& only_whole) {
  const std::string chunk = options.text_or("chunk", "auto");
  const std::int64_t steps = options.text_or("in-flight", "auto") == "auto"
                                 ? 0
                                 : options.integer_or("in-flight", 1, 1, planner::kMostSteps);
  const std::string subject = steps > 1 ? "flag '--in-flight': " : "flag '--chunk': ";
  const std::string expected =
      steps > 1 ? "; expected 1, or leave it out" : "; expected whole, or leave it out";
  if (chunk == "whole" && steps > 1)
    throw Usage(subject + "a prompt that is read whole is one step; expected 1, or '--chunk N'");
  if (chunk == "whole") return {};
  if (chunk == "auto" && steps < 2) return {.best = only_whole.empty(), .steps = steps};
  if (!only_whole.empty()) throw Usage(subject + only_whole + expected);
  if (!transformer.architecture().generates())
    throw Usage(subject + "an encoder reads its text whole" + expected);
  if (chunk == "auto") return {.best = true, .steps = steps};
  return {.rows = options.integer_or("chunk", 0, 1, 1 << 30), .steps = steps};
}

Served one_in_chunks(const planner::Workload& workload, std::int64_t chunk,
                     const study::PromptReading& reading) {
  study::ServedWorkload one = study::one_in_chunks(workload, chunk);
  return {.requests = std::move(one.requests),
          .policy = one.policy,
          .chunk = chunk,
          .steps = reading.steps,
          .samples = true};
}

planner::Objective objective_of(const Options& options, const planner::Strategy& strategy, bool any,
                                const std::optional<Served>& served) {
  using planner::Objective;
  if (!any) {
    const bool searched = options.text_or("partition", std::string(planner::kAutoPartition)) ==
                              planner::kAutoPartition ||
                          options.text_or("decode-moves", "q") == "auto";
    if (!searched)
      options.refuse({"objective"}, "with a partition other than auto, which is not searched");
    if (served && !strategy.sharding.splits_layers())
      options.refuse({"objective"}, "with many requests, but on the stages of strategy " +
                                        with_stages() + ", or with strategy 'auto'");
    if (!served && strategy.sharding.is_local())
      options.refuse({"objective"},
                     "with strategy '" + strategy.name + "', where there is nothing to choose");
  }
  std::vector<Objective> known{Objective::request, Objective::ttft, Objective::latency};
  if (served) {
    if (!any) known = {Objective::request};
    known.push_back(Objective::throughput);
  }
  const bool rings = served && served->policy->alone() && strategy.sharding.splits_layers();
  std::string_view usual = to_string(Objective::request);
  if (served && (any || rings)) usual = to_string(Objective::throughput);
  if (!served && options.text_or("objective", "") == "throughput")
    throw Usage(
        "flag '--objective': 'throughput' is of many requests; give '--workload' or '--samples'");
  std::vector<std::string_view> names;
  names.reserve(known.size());
  for (const Objective one : known) names.push_back(to_string(one));
  const std::string objective = options.choice_or("objective", std::string(usual), names);
  return *std::ranges::find(known, objective, [](Objective one) { return to_string(one); });
}

}  // namespace tandem::cli
