#pragma once

// The bytes of all tokens of a vocabulary, as a trie in one table.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

// Nodes are numbered depth first, from the root, 0: a node's subtree is a range that it begins.
class TokenTrie {
 public:
  // Of all tokens with text but those of `without`, below `vocab`, the number of logits.
  TokenTrie(const Tokenizer& tokenizer, std::span<const std::int64_t> without, std::int64_t vocab);
  // The same of given bytes and ids. Tokens without bytes are not in it.
  TokenTrie(std::vector<std::pair<std::string, std::int32_t>> tokens, std::int64_t vocab);

  [[nodiscard]] std::size_t nodes() const { return bytes_.size(); }
  [[nodiscard]] unsigned char byte(std::size_t node) const { return bytes_[node]; }
  [[nodiscard]] std::size_t depth(std::size_t node) const { return depths_[node]; }
  // Returns the first node behind the subtree.
  [[nodiscard]] std::size_t end(std::size_t node) const {
    return static_cast<std::size_t>(ends_[node]);
  }
  // Returns the tokens of exactly these bytes.
  [[nodiscard]] std::span<const std::int32_t> tokens(std::size_t node) const {
    const auto first = static_cast<std::size_t>(first_[node]);
    return {ids_.data() + first, static_cast<std::size_t>(first_[node + 1]) - first};
  }
  // Returns the bytes of a token; none if it is not in the trie.
  [[nodiscard]] std::string bytes_of(std::int32_t token) const;
  [[nodiscard]] std::size_t vocab() const { return nodes_of_.size(); }
  [[nodiscard]] std::size_t deepest() const { return deepest_; }

 private:
  void build(std::vector<std::pair<std::string, std::int32_t>> tokens, std::int64_t vocab);

  std::vector<unsigned char> bytes_;
  std::vector<std::uint32_t> depths_;
  std::vector<std::int32_t> ends_;
  std::vector<std::int32_t> parents_;
  std::vector<std::int32_t> first_;  // of ids_, by node, and the end
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> nodes_of_;  // by token; -1: none
  std::size_t deepest_ = 0;
};

}  // namespace tandem::exec
