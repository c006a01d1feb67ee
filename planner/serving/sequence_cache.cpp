#include "planner/serving/sequence_cache.hpp"

#include <algorithm>
#include <utility>

#include "model/base/error.hpp"
#include "model/graph/storage.hpp"
#include "planner/plan/capacity.hpp"

namespace tandem::planner {
namespace {

// Bounds of the index: of its sequences, and of its tokens beside the positions of the cache.
constexpr std::size_t kMostKept = 1024;
constexpr std::int64_t kTokensPerPosition = 16;
// A step has no more operations than can be announced: beside forks, one for each sequence that
// has ended or is evicted.
constexpr std::size_t kMostForked = 2048;

std::int64_t whole_blocks(std::int64_t positions) { return positions / model::kCacheBlock; }

}  // namespace

SequenceCache::SequenceCache(std::int64_t positions, bool shares)
    : shares_(shares),
      table_(shares ? whole_blocks(positions) : 0),
      held_(static_cast<std::size_t>(table_.size())) {}

SequenceCache::Prefix SequenceCache::find(std::span<const std::int32_t> prompt) const {
  if (!shares_ || prompt.size() < 2) return {};
  const auto known = prompt.first(prompt.size() - 1);
  const KeptPrefixes::Match kept = kept_.find(known);
  Prefix best{.from = kept.sequence, .positions = kept.tokens};
  for (const auto& [sequence, active] : active_) {
    const std::int64_t length = std::min<std::int64_t>(table_.length(sequence), std::ssize(known));
    if (length < best.positions) continue;
    const std::int64_t common =
        common_prefix(known.first(static_cast<std::size_t>(length)), active.prompt);
    if (common > 0 && common >= best.positions) best = {.from = sequence, .positions = common};
  }
  return best;
}

std::int64_t SequenceCache::reserved() const { return reserved_ - saved_; }

std::int64_t SequenceCache::needs(std::int64_t positions,
                                  std::span<const std::int32_t> prompt) const {
  std::int64_t needed = reserved_positions(positions);
  const Prefix prefix = find(prompt);
  if (prefix.positions == 0) return needed;
  const auto full = static_cast<std::size_t>(whole_blocks(prefix.positions));
  for (const std::int32_t block : table_.blocks(prefix.from).first(full))
    if (held_[static_cast<std::size_t>(block)] > 0) needed -= model::kCacheBlock;
  return needed;
}

void SequenceCache::admit(std::int32_t sequence, std::int64_t positions,
                          std::vector<std::int32_t> prompt) {
  const auto [added, fresh] = active_.try_emplace(
      sequence, Active{.reserved = reserved_positions(positions), .prompt = std::move(prompt)});
  require(fresh, "SequenceCache: another sequence");
  reserved_ += added->second.reserved;
  begin(sequence);
}

SequenceCache::Prefix SequenceCache::longer_prefix(std::int32_t sequence) const {
  const Active& active = active_.at(sequence);
  const Prefix prefix = find(active.prompt);
  if (prefix.positions <= table_.length(sequence)) return {};
  const auto own = table_.blocks(sequence).first(static_cast<std::size_t>(active.counted));
  const auto whole = static_cast<std::size_t>(whole_blocks(prefix.positions));
  const auto others = table_.blocks(prefix.from).first(whole);
  std::int64_t shared_now = 0;
  for (const std::int32_t block : own)
    shared_now += held_[static_cast<std::size_t>(block)] > 1 ? model::kCacheBlock : 0;
  std::int64_t shared_then = 0;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const bool is_own = i < own.size() && own[i] == others[i];
    shared_then +=
        held_[static_cast<std::size_t>(others[i])] > (is_own ? 1 : 0) ? model::kCacheBlock : 0;
  }
  // Others were admitted into what this request shares.
  const std::int64_t positions = table_.size() * model::kCacheBlock;
  return reserved() + shared_now - shared_then <= positions ? prefix : Prefix{};
}

std::int64_t SequenceCache::begin(std::int32_t sequence) {
  if (!shares_) return 0;
  Active& active = active_.at(sequence);
  const std::int64_t length = table_.length(sequence);
  const Prefix prefix = longer_prefix(sequence);
  if (prefix.positions == 0 || operations_.size() >= kMostForked) return length;
  if (length > 0) {
    uncount(sequence, active);
    apply({.kind = model::CacheOpKind::free, .sequence = sequence});
  }
  apply({.kind = model::CacheOpKind::fork,
         .sequence = sequence,
         .from = prefix.from,
         .positions = static_cast<std::int32_t>(prefix.positions)});
  // The last one, if it is not full, is copied before it is written.
  count(sequence, active, whole_blocks(prefix.positions));
  kept_.use(prefix.from);
  return prefix.positions;
}

std::int64_t SequenceCache::available(std::int32_t sequence) const {
  return std::max<std::int64_t>(table_.length(sequence), longer_prefix(sequence).positions);
}

std::int64_t SequenceCache::common(std::int32_t sequence, std::int32_t other) const {
  const std::span<const std::int32_t> prompt(active_.at(sequence).prompt);
  if (prompt.empty()) return 0;
  return common_prefix(prompt.first(prompt.size() - 1), active_.at(other).prompt);
}

std::vector<model::CacheOp> SequenceCache::enter(std::span<const model::Segment> rows) {
  for (const model::Segment& segment : rows) active_.at(segment.sequence).entered = true;
  if (!shares_) return std::exchange(operations_, {});
  const auto needed = [&] {
    std::int64_t blocks = 0;
    for (const model::Segment& segment : rows)
      blocks += table_.needs(segment.sequence, {segment.past, segment.past + segment.rows});
    return blocks;
  };
  while (needed() > table_.free_blocks() && evict()) {
  }
  for (const model::Segment& segment : rows) append(segment);
  return std::exchange(operations_, {});
}

void SequenceCache::append(const model::Segment& rows) {
  Active& active = active_.at(rows.sequence);
  const model::Range positions{rows.past, rows.past + rows.rows};
  // A block that is written may be a copy from now on.
  for (std::int64_t i = whole_blocks(positions.begin); i < active.counted; ++i)
    hold(table_.blocks(rows.sequence)[static_cast<std::size_t>(i)], -1);
  active.counted = std::min(active.counted, whole_blocks(positions.begin));
  static_cast<void>(table_.append(rows.sequence, positions));
  count(rows.sequence, active, model::cache_blocks(positions.end));
}

void SequenceCache::end(std::int32_t sequence, std::vector<std::int32_t> contents) {
  const auto found = active_.find(sequence);
  require(found != active_.end(), "SequenceCache: an active sequence");
  uncount(sequence, found->second);
  reserved_ -= found->second.reserved;
  const bool entered = found->second.entered;
  active_.erase(found);
  const model::CacheOp free{.kind = model::CacheOpKind::free, .sequence = sequence};
  if (!shares_ && entered) operations_.push_back(free);
  if (table_.length(sequence) == 0) return;
  if (contents.empty()) return apply(free);
  require(std::ssize(contents) == table_.length(sequence),
          "SequenceCache: the contents of all positions");
  if (const auto covered = kept_.keep(sequence, std::move(contents)))
    apply({.kind = model::CacheOpKind::free, .sequence = *covered});
  while (kept_.size() > kMostKept ||
         kept_.tokens() > kTokensPerPosition * table_.size() * model::kCacheBlock)
    evict();
}

void SequenceCache::apply(const model::CacheOp& op) {
  table_.apply(op);
  operations_.push_back(op);
}

bool SequenceCache::evict() {
  const auto sequence = kept_.evict();
  if (sequence) apply({.kind = model::CacheOpKind::free, .sequence = *sequence});
  return sequence.has_value();
}

// Counts the first `blocks` of a sequence as held.
void SequenceCache::count(std::int32_t sequence, Active& active, std::int64_t blocks) {
  for (; active.counted < blocks; ++active.counted)
    hold(table_.blocks(sequence)[static_cast<std::size_t>(active.counted)], 1);
}

void SequenceCache::uncount(std::int32_t sequence, Active& active) {
  for (; active.counted > 0; --active.counted)
    hold(table_.blocks(sequence)[static_cast<std::size_t>(active.counted - 1)], -1);
}

void SequenceCache::hold(std::int32_t block, std::int32_t change) {
  std::int32_t& held = held_[static_cast<std::size_t>(block)];
  const std::int32_t least = std::min(held, held + change);
  held += change;
  if (least > 0) saved_ += change * model::kCacheBlock;
}

}  // namespace tandem::planner
