#pragma once

// Hugging Face's tokenizer.json, as far as it describes byte-level BPE.

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
  // One step that cuts text into words.
  struct Step {
    bool add_prefix_space = false;          // in front of parts that begin without one
    std::optional<SplitPattern> pattern{};  // none: the parts stay whole
  };

  std::unordered_map<std::string, std::int32_t> vocab;  // in letters of the byte alphabet
  std::vector<Merge> merges;                            // by rank
  // Tokens that no letters stand for alone, but merges and whole words may.
  std::unordered_map<std::string, std::int32_t> silent;
  bool ignore_merges = false;  // words that are in the vocabulary are not put together
  std::int32_t unknown = -1;   // for bytes without a token; -1: every byte of UTF-8 has one
  std::vector<AddedToken> added;
  TokenSearch search = TokenSearch::leftmost;  // for those
  std::vector<UnicodeForm> forms;              // applied one after the other
  std::vector<Step> steps;
  std::vector<std::int32_t> front;  // tokens around every text
  std::vector<std::int32_t> back;
};

// Throws Error (`source`, what was found, remedy) for files that are damaged, contradict themselves
// or hold another kind of tokenizer.
[[nodiscard]] TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& source);

// The tokenizer of GPT-2's own two files: `vocabulary` (vocab.json) maps tokens to ids, `merges`
// (merges.txt) has one merge a line by rank, below a line "#version". The words are GPT-2's, with a
// space in front of a text if `prefix_space`.
[[nodiscard]] TokenizerJson parse_vocabulary_and_merges(std::string_view vocabulary,
                                                        const std::string& vocabulary_source,
                                                        std::string_view merges,
                                                        const std::string& merges_source,
                                                        bool prefix_space);

}  // namespace tandem::exec
