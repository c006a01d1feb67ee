#pragma once

// The part of Hugging Face's tokenizer.json that describes byte-level BPE.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exec/tokenizer/added_tokens.hpp"
#include "exec/tokenizer/split_pattern.hpp"
#include "exec/tokenizer/unicode_form.hpp"

namespace tandem::exec {

struct TokenizerJson {
  struct Merge {
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int32_t merged = 0;
  };
  // One step of splitting texts into words.
  struct Step {
    bool add_prefix_space = false;          // before parts that begin without one
    std::optional<SplitPattern> pattern{};  // none: parts are not split
  };

  std::unordered_map<std::string, std::int32_t> vocab;  // in letters of the byte alphabet
  std::vector<Merge> merges;                            // by rank
  // Tokens that no word alone maps to, but that merges and whole words may produce.
  std::unordered_map<std::string, std::int32_t> silent;
  bool ignore_merges = false;  // words in the vocabulary are tokens without merging
  std::int32_t unknown = -1;   // for bytes without a token; -1: every byte of UTF-8 has one
  std::vector<AddedToken> added;
  TokenSearch search = TokenSearch::leftmost;  // for those
  std::vector<UnicodeForm> forms;              // applied in order
  std::vector<Step> steps;
  std::vector<std::int32_t> front;  // tokens around every text
  std::vector<std::int32_t> back;
};

// Throws Error (`source`, finding, remedy) for files that are damaged, contradictory, or hold
// another kind of tokenizer.
[[nodiscard]] TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& source);

// Parses the two files of GPT-2's tokenizer: `vocabulary` (vocab.json) maps tokens to ids, `merges`
// (merges.txt) has one merge a line by rank, below a line "#version". Splits words as GPT-2 does,
// with a space before a text if `prefix_space`.
[[nodiscard]] TokenizerJson parse_vocabulary_and_merges(std::string_view vocabulary,
                                                        const std::string& vocabulary_source,
                                                        std::string_view merges,
                                                        const std::string& merges_source,
                                                        bool prefix_space);

}  // namespace tandem::exec
