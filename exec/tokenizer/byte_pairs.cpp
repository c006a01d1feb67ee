#include "exec/tokenizer/byte_pairs.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

namespace tandem::exec {
namespace {

constexpr std::size_t kNoSymbol = static_cast<std::size_t>(-1);

struct ByteSymbol {
  std::int32_t token = 0;
  std::size_t before = kNoSymbol;
  std::size_t behind = kNoSymbol;
};

// A merge of the symbol at `at` with the one behind it, as they were when it was found.
struct MergeCandidate {
  std::uint32_t rank = 0;
  std::size_t at = 0;
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t merged = 0;

  bool operator>(const MergeCandidate& other) const {
    return std::tie(rank, at) > std::tie(other.rank, other.at);
  }
};

std::uint64_t key(std::int32_t left, std::int32_t right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32U) |
         static_cast<std::uint32_t>(right);
}

}  // namespace

void BytePairs::add_merge(std::int32_t left, std::int32_t right, std::int32_t merged,
                          std::uint32_t rank) {
  merges_.insert_or_assign(key(left, right), Merge{.rank = rank, .token = merged});
}

const BytePairs::Merge* BytePairs::merge_of(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairs::encode(std::string_view word, std::int32_t unknown,
                       std::vector<std::int32_t>& tokens) const {
  std::vector<ByteSymbol> symbols(word.size());
  for (std::size_t i = 0; i < word.size(); ++i) {
    const std::int32_t token = bytes_[static_cast<unsigned char>(word[i])];
    symbols[i] = {.token = token < 0 ? unknown : token,
                  .before = i == 0 ? kNoSymbol : i - 1,
                  .behind = i + 1 < word.size() ? i + 1 : kNoSymbol};
  }
  std::priority_queue<MergeCandidate, std::vector<MergeCandidate>, std::greater<>> queue;
  const auto consider = [&](std::size_t at) {
    if (at == kNoSymbol || symbols[at].behind == kNoSymbol) return;
    const std::int32_t left = symbols[at].token;
    const std::int32_t right = symbols[symbols[at].behind].token;
    if (const Merge* merge = merge_of(left, right)) {
      queue.push(
          {.rank = merge->rank, .at = at, .left = left, .right = right, .merged = merge->token});
    }
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) consider(i);
  while (!queue.empty()) {
    const MergeCandidate candidate = queue.top();
    queue.pop();
    ByteSymbol& left = symbols[candidate.at];
    // A symbol that was merged away has token -1.
    if (left.token != candidate.left || left.behind == kNoSymbol) continue;
    ByteSymbol& right = symbols[left.behind];
    if (right.token != candidate.right) continue;
    left.token = candidate.merged;
    left.behind = right.behind;
    right.token = -1;
    if (left.behind != kNoSymbol) symbols[left.behind].before = candidate.at;
    consider(left.before);
    consider(candidate.at);
  }
  for (const ByteSymbol& symbol : symbols) {
    if (symbol.token >= 0) tokens.push_back(symbol.token);
  }
}

}  // namespace tandem::exec
