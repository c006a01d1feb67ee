#pragma once

// What is fed to a model: flags --prompt, --raw-prompt and --prompt-ids.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags/options.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "model/transformer.hpp"

namespace tandem::cli {

// The tokenizer of the weights. One that cannot be read is no obstacle where `ids_only`: all
// prompts are given as token ids.
[[nodiscard]] std::unique_ptr<exec::Tokenizer> tokenizer_of(const Options& options,
                                                            const model::Transformer& model,
                                                            const std::filesystem::path& weights,
                                                            bool ids_only);

// The ids of a prompt, encoded as `--raw-prompt` says. Throws Error naming `subject` if there are
// none.
[[nodiscard]] std::vector<std::int32_t> encoded_prompt(
    const Options& options, const exec::Tokenizer& tokenizer, const std::string& text,
    const std::string& subject = "flag '--prompt'");

// The ids of the prompt that the flags give, else a text of the planned length; a remark on
// standard error if their number is not the planned one. `planned`: nothing without a plan, whose
// flags must give a prompt. Throws Usage, Error.
[[nodiscard]] std::vector<std::int32_t> prompt_of(const Options& options,
                                                  const exec::Tokenizer& tokenizer,
                                                  std::optional<std::int64_t> planned);

}  // namespace tandem::cli
