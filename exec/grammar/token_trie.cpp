#include "exec/grammar/token_trie.hpp"

#include <algorithm>

#include "exec/tokenizer/token_table.hpp"

namespace tandem::exec {

TokenTrie::TokenTrie(const Tokenizer& tokenizer, std::span<const std::int64_t> without,
                     std::int64_t vocab) {
  std::vector<std::pair<std::string, std::int32_t>> tokens;
  const auto count = static_cast<std::int32_t>(std::min(vocab, tokenizer.vocab()));
  tokens.reserve(static_cast<std::size_t>(count));
  for (std::int32_t id = 0; id < count; ++id) {
    if (std::ranges::find(without, id) != without.end()) continue;
    std::string piece = tokenizer.piece(id);
    if (piece != without_text(id)) tokens.emplace_back(std::move(piece), id);
  }
  build(std::move(tokens), vocab);
}

TokenTrie::TokenTrie(std::vector<std::pair<std::string, std::int32_t>> tokens, std::int64_t vocab) {
  build(std::move(tokens), vocab);
}

void TokenTrie::build(std::vector<std::pair<std::string, std::int32_t>> tokens,
                      std::int64_t vocab) {
  std::ranges::sort(tokens);
  nodes_of_.assign(static_cast<std::size_t>(vocab), -1);
  std::vector<std::int32_t> path{0};  // the nodes of the last token, by depth
  const auto add = [&](unsigned char byte, std::int32_t parent) {
    bytes_.push_back(byte);
    depths_.push_back(static_cast<std::uint32_t>(path.size()));
    ends_.push_back(0);
    parents_.push_back(parent);
    first_.push_back(static_cast<std::int32_t>(ids_.size()));
  };
  path.clear();
  add(0, -1);
  path.push_back(0);
  std::string_view before;
  const auto leave = [&](std::size_t depth) {
    for (; path.size() > depth + 1; path.pop_back())
      ends_[static_cast<std::size_t>(path.back())] = static_cast<std::int32_t>(bytes_.size());
  };
  for (const auto& [bytes, id] : tokens) {
    if (bytes.empty()) continue;
    const auto common =
        static_cast<std::size_t>(std::ranges::mismatch(before, bytes).in1 - before.begin());
    leave(common);
    for (std::size_t i = common; i < bytes.size(); ++i) {
      add(static_cast<unsigned char>(bytes[i]), path.back());
      path.push_back(static_cast<std::int32_t>(bytes_.size() - 1));
    }
    nodes_of_[static_cast<std::size_t>(id)] = path.back();
    ids_.push_back(id);
    deepest_ = std::max(deepest_, bytes.size());
    before = bytes;
  }
  leave(0);
  ends_[0] = static_cast<std::int32_t>(bytes_.size());
  first_.push_back(static_cast<std::int32_t>(ids_.size()));
}

std::string TokenTrie::bytes_of(std::int32_t token) const {
  std::string bytes;
  const auto at = static_cast<std::size_t>(token);
  if (token < 0 || at >= nodes_of_.size()) return bytes;
  for (std::int32_t node = nodes_of_[at]; node > 0; node = parents_[static_cast<std::size_t>(node)])
    bytes += static_cast<char>(bytes_[static_cast<std::size_t>(node)]);
  std::ranges::reverse(bytes);
  return bytes;
}

}  // namespace tandem::exec
