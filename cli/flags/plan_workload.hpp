#pragma once

// What flags of `tandem plan` say of the requests that the plan is for.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "advice/prompt_chunks.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/workload_flags.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/plan/workload.hpp"
#include "planner/search/objective.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::cli {

// The strategies whose devices work on steps of their own, for messages.
[[nodiscard]] std::string with_stages();

// Model folder or GGUF file, which have tokenizers; empty if the model is only a geometry.
[[nodiscard]] std::filesystem::path tokenizer_source(const std::string& model_name);

// The lengths of one request: `--new-tokens`, and `--prompt-tokens` or the tokens of `--prompt`,
// counted by the model's tokenizer. By default 512 prompt and 128 new tokens, shortened to the
// model's context. Throws Usage for flags that contradict each other, Error for a text and a model
// without a tokenizer.
[[nodiscard]] planner::Workload lengths_of(const Options& options, const std::string& model_name,
                                           const model::Transformer& transformer);
// Describes why lengths that are not given are not the default ones; empty if they are.
[[nodiscard]] std::string shortening_text(const Options& options, const planner::Workload& workload,
                                          const model::Transformer& transformer);

// The workload of one request by flags, or of a typical one of many, which state their lengths
// themselves. Throws Usage for flags of lengths beside a workload.
[[nodiscard]] planner::Workload workload_of(const Options& options, const std::string& model_name,
                                            const model::Transformer& transformer,
                                            const std::optional<Served>& served);

// How the prompt of one request is read, by `--chunk`: in chunks of so many tokens, whole or, by
// default, as is predicted best. `only_whole` is why it can only be read whole; empty: it may be in
// chunks. Throws Usage for chunks that cannot be.
[[nodiscard]] study::PromptReading prompt_reading(const Options& options,
                                                  const model::Transformer& transformer,
                                                  const std::string& only_whole);

// The service of one request whose prompt is read in chunks of `chunk` rows, with as many in flight
// as `reading` asks for.
[[nodiscard]] Served one_in_chunks(const planner::Workload& workload, std::int64_t chunk,
                                   const study::PromptReading& reading);

// `--objective`, by default throughput of many requests and the request of one. `any`: the strategy
// is to be chosen, too. Throws Usage where nothing is searched, Error for an unknown objective.
[[nodiscard]] planner::Objective objective_of(const Options& options,
                                              const planner::Strategy& strategy, bool any,
                                              const std::optional<Served>& served);

}  // namespace tandem::cli
