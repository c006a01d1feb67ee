#pragma once

// Sequences whose caches are kept after their requests have ended, by their tokens.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace tandem::planner {

// Returns the number of tokens with which both begin.
[[nodiscard]] std::int64_t common_prefix(std::span<const std::int32_t> a,
                                         std::span<const std::int32_t> b);

// An index for longest common prefixes: sequences are sorted by their tokens, so one with the
// longest prefix in common with a text is next to where that text would be. No sequence in it is a
// prefix of another.
class KeptPrefixes {
 public:
  struct Match {
    std::int32_t sequence = -1;
    std::int64_t tokens = 0;  // in common; 0: no sequence has any
  };

  // Returns a sequence with the longest prefix in common with `tokens`. O(log n) comparisons.
  [[nodiscard]] Match find(std::span<const std::int32_t> tokens) const;

  // Adds a sequence, which is then the most recently used. Returns one that is not needed any more:
  // `sequence` itself if another one begins with its tokens, or one that is a prefix of it.
  [[nodiscard]] std::optional<std::int32_t> keep(std::int32_t sequence,
                                                 std::vector<std::int32_t> tokens);
  // Makes a sequence the most recently used; no effect if it is not kept.
  void use(std::int32_t sequence);
  // Removes the least recently used sequence and returns it; nothing if there is none.
  [[nodiscard]] std::optional<std::int32_t> evict();

  [[nodiscard]] std::size_t size() const { return sequences_.size(); }
  // Returns the sum of the sequences' tokens.
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }

 private:
  struct Less {
    using is_transparent = void;
    bool operator()(std::span<const std::int32_t> a, std::span<const std::int32_t> b) const;
  };
  struct Kept {
    std::int32_t sequence = 0;
    std::int64_t used = 0;
  };
  using ByTokens = std::map<std::vector<std::int32_t>, Kept, Less>;
  void touch(ByTokens::iterator kept);
  std::int32_t remove(ByTokens::iterator kept);

  ByTokens by_tokens_;
  std::map<std::int64_t, ByTokens::iterator> by_use_;
  std::map<std::int32_t, ByTokens::iterator> sequences_;
  std::int64_t uses_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace tandem::planner
