#pragma once

// What `tandem run` feeds a model: flags --prompt and --prompt-ids.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "cli/options.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "planner/plan.hpp"

namespace tandem::cli {

// The tokenizer of the weights. One that cannot be read is no obstacle to a prompt of token ids.
[[nodiscard]] std::unique_ptr<exec::Tokenizer> tokenizer_of(const Options& options,
                                                            const planner::Plan& plan,
                                                            const std::filesystem::path& weights);

// The ids of the prompt that the flags give, else a text of the planned length; a remark on
// standard error if their number is not the planned one. Throws Usage, Error.
[[nodiscard]] std::vector<std::int32_t> prompt_of(const Options& options,
                                                  const exec::Tokenizer& tokenizer,
                                                  const planner::Plan& plan);

}  // namespace tandem::cli
