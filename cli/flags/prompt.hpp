#pragma once

// What is fed to a model: flags --prompt, --raw-prompt, --chat, --system and --prompt-ids.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags/options.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::cli {

// The tokenizer of the weights. One that cannot be read is no obstacle where `ids_only`: all
// prompts are given as token ids.
[[nodiscard]] std::unique_ptr<exec::Tokenizer> tokenizer_of(const Options& options,
                                                            const model::Transformer& model,
                                                            const std::filesystem::path& weights,
                                                            bool ids_only);

// How special tokens that are written in a prompt are encoded, as `--raw-prompt` says.
[[nodiscard]] exec::WrittenTokens written_tokens(const Options& options);

// The ids of a prompt. Throws Error naming `subject` if there are none.
[[nodiscard]] std::vector<std::int32_t> encoded_prompt(const exec::Tokenizer& tokenizer,
                                                       const std::string& text,
                                                       exec::WrittenTokens written,
                                                       const std::string& subject);

// The flags that make a prompt part of a conversation.
inline constexpr Flag kChatFlag{"chat", "",
                                "the prompt is what a user says: use the model's chat template"};
inline constexpr Flag kSystemFlag{"system", "TEXT", "with --chat: the system message before it",
                                  /*repeatable=*/false, /*may_be_empty=*/true};

// The ids of what a user says, in the model's chat template if `--chat` says so, else of the text
// as encoded_prompt. Throws Usage, Error.
[[nodiscard]] std::vector<std::int32_t> spoken_prompt(const Options& options,
                                                      const exec::Tokenizer& tokenizer,
                                                      const std::filesystem::path& weights,
                                                      const std::string& text);

// The ids of the prompt that the flags give, else a text of the planned length; remarks on
// standard error if their number is not the planned one, or if the model has a chat template that
// is not used. `planned`: nothing without a plan, whose flags must give a prompt. Throws Usage,
// Error.
[[nodiscard]] std::vector<std::int32_t> prompt_of(const Options& options,
                                                  const exec::Tokenizer& tokenizer,
                                                  const std::filesystem::path& weights,
                                                  std::optional<std::int64_t> planned);

}  // namespace tandem::cli
