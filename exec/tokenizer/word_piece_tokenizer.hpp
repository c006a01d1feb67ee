#pragma once

// BERT's tokenizer: words of a vocabulary, longer ones in pieces that begin with "##".

#include <memory>
#include <string>
#include <string_view>

#include "exec/tokenizer/token_settings.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

// `vocabulary` is a vocab.txt, one token a line, its id the line's number. Text is cleaned,
// converted to lower case and stripped of accents as `settings` state (by default both), and split
// at white space, at punctuation and around Chinese characters. Each word is covered from the left
// by the longest possible tokens, or else is unknown (Wu et al. 2016; Devlin et al. 2019, as in
// Hugging Face's BertTokenizer). [CLS] and [SEP] are around every text. Throws Error (`source`,
// value, expected, remedy) for a damaged file, one without those tokens or with more than `vocab`.
[[nodiscard]] std::unique_ptr<Tokenizer> word_piece_tokenizer(std::string_view vocabulary,
                                                              const std::string& source,
                                                              const TokenSettings& settings,
                                                              std::int64_t vocab);

}  // namespace tandem::exec
