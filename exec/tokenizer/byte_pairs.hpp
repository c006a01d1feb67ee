#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tandem::exec {

// Byte-pair encoding of one word: repeatedly merges the neighbours with the lowest rank (of equal
// ones the leftmost) into one token, until none can be merged (Sennrich et al., ACL 2016).
class BytePairs {
 public:
  // Sets the token of a single byte; negative: none, the byte cannot be encoded.
  void set_byte(unsigned char byte, std::int32_t token) { bytes_[byte] = token; }
  [[nodiscard]] bool has_byte(unsigned char byte) const { return bytes_[byte] >= 0; }
  // Merges neighbours `left` and `right` into `merged`; replaces an earlier merge of the same two.
  void add_merge(std::int32_t left, std::int32_t right, std::int32_t merged, std::uint32_t rank);
  void reserve(std::size_t merges) { merges_.reserve(merges); }

  // Appends the tokens of `word`; O(n log n) in its length. `unknown` replaces bytes without a
  // token.
  void encode(std::string_view word, std::int32_t unknown, std::vector<std::int32_t>& tokens) const;

 private:
  struct Merge {
    std::uint32_t rank = 0;
    std::int32_t token = 0;
  };
  [[nodiscard]] const Merge* merge_of(std::int32_t left, std::int32_t right) const;

  std::array<std::int32_t, 256> bytes_{};
  std::unordered_map<std::uint64_t, Merge> merges_;  // by both tokens
};

}  // namespace tandem::exec
