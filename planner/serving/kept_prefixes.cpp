#include "planner/serving/kept_prefixes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::planner {

std::int64_t common_prefix(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  const std::size_t most = std::min(a.size(), b.size());
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(most);
  return std::mismatch(a.begin(), end, b.begin()).first - a.begin();
}

bool KeptPrefixes::Less::operator()(std::span<const std::int32_t> a,
                                    std::span<const std::int32_t> b) const {
  return std::ranges::lexicographical_compare(a, b);
}

KeptPrefixes::Match KeptPrefixes::find(std::span<const std::int32_t> tokens) const {
  Match best;
  const auto consider = [&](ByTokens::const_iterator kept) {
    const std::int64_t common = common_prefix(tokens, kept->first);
    if (common > best.tokens) best = {.sequence = kept->second.sequence, .tokens = common};
  };
  const auto after = by_tokens_.lower_bound(tokens);
  if (after != by_tokens_.end()) consider(after);
  if (after != by_tokens_.begin()) consider(std::prev(after));
  return best;
}

std::optional<std::int32_t> KeptPrefixes::keep(std::int32_t sequence,
                                               std::vector<std::int32_t> tokens) {
  require(!tokens.empty() && !sequences_.contains(sequence),
          "KeptPrefixes: another sequence, with tokens");
  const auto length = std::ssize(tokens);
  const auto after = by_tokens_.lower_bound(std::span<const std::int32_t>(tokens));
  if (after != by_tokens_.end() && common_prefix(tokens, after->first) == length) {
    touch(after);
    return sequence;
  }
  std::optional<std::int32_t> covered;
  if (after != by_tokens_.begin()) {
    const auto before = std::prev(after);
    if (common_prefix(tokens, before->first) == std::ssize(before->first)) covered = remove(before);
  }
  const auto [kept, added] = by_tokens_.emplace(std::move(tokens), Kept{.sequence = sequence});
  require(added, "KeptPrefixes: tokens that no other sequence has");
  sequences_.emplace(sequence, kept);
  tokens_ += length;
  kept->second.used = uses_++;
  by_use_.emplace(kept->second.used, kept);
  return covered;
}

void KeptPrefixes::use(std::int32_t sequence) {
  const auto found = sequences_.find(sequence);
  if (found != sequences_.end()) touch(found->second);
}

void KeptPrefixes::touch(ByTokens::iterator kept) {
  by_use_.erase(kept->second.used);
  kept->second.used = uses_++;
  by_use_.emplace(kept->second.used, kept);
}

std::optional<std::int32_t> KeptPrefixes::evict() {
  if (by_use_.empty()) return std::nullopt;
  return remove(by_use_.begin()->second);
}

std::int32_t KeptPrefixes::remove(ByTokens::iterator kept) {
  const std::int32_t sequence = kept->second.sequence;
  tokens_ -= std::ssize(kept->first);
  by_use_.erase(kept->second.used);
  sequences_.erase(sequence);
  by_tokens_.erase(kept);
  return sequence;
}

}  // namespace tandem::planner
