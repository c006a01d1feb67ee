#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "exec/tokenizer/sentencepiece_model.hpp"
#include "exec/tokenizer/token_settings.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

// Returns the tokenizer of a `tokenizer.model`, given as `bytes`; `vocab`: of the model. Throws
// Error (`source`) as load_tokenizer does.
[[nodiscard]] std::unique_ptr<Tokenizer> sentencepiece_tokenizer(std::string_view bytes,
                                                                 const std::string& source,
                                                                 const TokenSettings& settings,
                                                                 std::int64_t vocab);

// The same for a model that parse_sentencepiece has validated.
[[nodiscard]] std::unique_ptr<Tokenizer> sentencepiece_tokenizer(SentencePieceModel model,
                                                                 const std::string& source,
                                                                 const TokenSettings& settings,
                                                                 std::int64_t vocab);

}  // namespace tandem::exec
