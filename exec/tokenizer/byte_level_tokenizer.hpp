#pragma once

#include <memory>
#include <string>

#include "exec/tokenizer/token_settings.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/tokenizer/tokenizer_json.hpp"

namespace tandem::exec {

// Returns the tokenizer of a tokenizer.json; `vocab`: of the model. Throws Error (`source`) for ids
// beyond it.
[[nodiscard]] std::unique_ptr<Tokenizer> byte_level_tokenizer(TokenizerJson json,
                                                              const std::string& source,
                                                              const TokenSettings& settings,
                                                              std::int64_t vocab);

}  // namespace tandem::exec
