#pragma once

// BERT's tokenizer: words of a vocabulary, longer ones in pieces that begin with "##".

#include <memory>
#include <string>
#include <string_view>

#include "exec/tokenizer/token_settings.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

// `vocabulary` is a vocab.txt, one token a line, its id the line's number. Text is cleaned, put
// into lower case and freed of accents as `settings` say (by default both), cut at white space, at
// punctuation and around Chinese characters, and each word is covered from the left by the longest
// tokens there are, or else unknown (Wu et al. 2016; Devlin et al. 2019, as Hugging Face's
// BertTokenizer does it); [CLS] and [SEP] are around every text. Throws Error (`source`, value,
// expected, remedy) for a damaged file, one without those tokens or with more than `vocab`.
[[nodiscard]] std::unique_ptr<Tokenizer> word_piece_tokenizer(std::string_view vocabulary,
                                                              const std::string& source,
                                                              const TokenSettings& settings,
                                                              std::int64_t vocab);

}  // namespace tandem::exec
