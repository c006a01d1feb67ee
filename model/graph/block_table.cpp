#include "model/graph/block_table.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "model/base/error.hpp"
#include "model/graph/storage.hpp"

namespace tandem::model {
namespace {

constexpr auto kBlock = static_cast<std::int32_t>(kCacheBlock);

std::int32_t blocks_for(std::int32_t positions) {
  return static_cast<std::int32_t>(cache_blocks(positions));
}

// The part of `held` before `positions`.
std::vector<Range> before(const std::vector<Range>& held, std::int32_t positions) {
  std::vector<Range> kept;
  for (const Range range : held) {
    const Range part = range.intersect({0, positions});
    if (!part.empty()) kept.push_back(part);
  }
  return kept;
}

}  // namespace

BlockTable::BlockTable(std::int64_t blocks) {
  require(0 <= blocks && blocks <= std::numeric_limits<std::int32_t>::max(),
          "a block table has a number of blocks");
  references_.resize(static_cast<std::size_t>(blocks));
  free_.reserve(references_.size());
  clear();
}

void BlockTable::clear() {
  sequences_.clear();
  std::ranges::fill(references_, 0);
  free_.clear();
  // Used in ascending order: one sequence's blocks are then in the order of its positions.
  for (auto block = static_cast<std::int32_t>(references_.size()); block > 0; --block)
    free_.push_back(block - 1);
}

void BlockTable::grow(std::int64_t blocks) {
  require(0 <= blocks && size() + blocks <= std::numeric_limits<std::int32_t>::max(),
          "a block table has a number of blocks");
  std::vector<std::int32_t> more;
  for (auto block = static_cast<std::int32_t>(size() + blocks); block > size(); --block)
    more.push_back(block - 1);
  references_.resize(references_.size() + more.size());
  free_.insert(free_.begin(), more.begin(), more.end());
}

const BlockTable::Sequence* BlockTable::find(std::int32_t sequence) const {
  const auto found = sequences_.find(sequence);
  return found == sequences_.end() ? nullptr : &found->second;
}

std::span<const std::int32_t> BlockTable::blocks(std::int32_t sequence) const {
  const Sequence* s = find(sequence);
  return s == nullptr ? std::span<const std::int32_t>{} : std::span(s->blocks);
}

std::int32_t BlockTable::length(std::int32_t sequence) const {
  const Sequence* s = find(sequence);
  return s == nullptr ? 0 : s->length;
}

Range BlockTable::appended(std::int32_t sequence) const {
  const Sequence* s = find(sequence);
  return s == nullptr ? Range{} : s->appended;
}

bool BlockTable::holds(std::int32_t sequence, Range positions) const {
  if (positions.empty()) return true;
  const Sequence* s = find(sequence);
  return s != nullptr &&
         std::ranges::any_of(s->held, [&](Range range) { return range.contains(positions); });
}

std::int32_t BlockTable::references(std::int32_t block) const {
  require(0 <= block && block < size(), "references: a block of the table");
  return references_[static_cast<std::size_t>(block)];
}

std::int32_t BlockTable::take() {
  const std::int32_t block = free_.back();
  free_.pop_back();
  references_[static_cast<std::size_t>(block)] = 1;
  return block;
}

void BlockTable::drop(std::int32_t block) {
  if (block == kNoBlock) return;
  if (--references_[static_cast<std::size_t>(block)] == 0) free_.push_back(block);
}

std::int64_t BlockTable::needs(std::int32_t sequence, Range positions) const {
  const std::span<const std::int32_t> blocks = this->blocks(sequence);
  std::int64_t count = 0;
  for (std::int32_t i = positions.begin / kBlock; i < blocks_for(positions.end); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (at >= blocks.size() || blocks[at] == kNoBlock || references(blocks[at]) > 1) ++count;
  }
  return positions.empty() ? 0 : count;
}

std::vector<BlockTable::Copy> BlockTable::append(std::int32_t sequence, Range positions) {
  require(0 <= positions.begin && positions.begin <= positions.end, "append: positions in order");
  if (positions.empty()) return {};
  const bool again = appended(sequence) == positions;
  const std::int32_t length = this->length(sequence);
  if (!again && positions.begin != length) {
    throw std::logic_error("sequence " + std::to_string(sequence) + ": positions from " +
                           std::to_string(positions.begin) + ", but the cache has " +
                           std::to_string(length) + "; free, truncate or compute them first");
  }
  const std::int64_t needed = needs(sequence, positions);
  if (needed > free_blocks()) {
    throw Error("key/value cache: sequence " + std::to_string(sequence) + " needs " +
                std::to_string(needed) + " more blocks of " + std::to_string(kCacheBlock) +
                " positions, expected at most the " + std::to_string(free_blocks()) + " of " +
                std::to_string(size()) +
                " that are free; plan for more positions, or serve fewer requests at once");
  }

  Sequence& s = sequences_[sequence];
  std::vector<Copy> copies;
  s.blocks.resize(std::max(s.blocks.size(), static_cast<std::size_t>(blocks_for(positions.end))),
                  kNoBlock);
  for (std::int32_t i = positions.begin / kBlock; i < blocks_for(positions.end); ++i) {
    std::int32_t& block = s.blocks[static_cast<std::size_t>(i)];
    if (block == kNoBlock) {
      block = take();
    } else if (references(block) > 1) {
      const std::int32_t shared = block;
      block = take();
      drop(shared);
      // If positions are written again, other layers are kept.
      const std::int32_t end = again ? positions.end : positions.begin;
      const std::int32_t kept = std::min(end - i * kBlock, kBlock);
      if (kept > 0) copies.push_back({.from = shared, .to = block, .positions = kept});
    }
  }
  if (!again) {
    if (!s.held.empty() && s.held.back().end == positions.begin) {
      s.held.back().end = positions.end;
    } else {
      s.held.push_back(positions);
    }
    s.length = positions.end;
    s.appended = positions;
  }
  return copies;
}

void BlockTable::skip(std::int32_t sequence, Range positions) {
  require(positions.begin == length(sequence) && positions.begin <= positions.end,
          "skip: positions that continue the sequence");
  if (positions.empty()) return;
  Sequence& s = sequences_[sequence];
  s.length = positions.end;
  s.appended = {};
}

void BlockTable::apply(const CacheOp& op) {
  switch (op.kind) {
    case CacheOpKind::free:
      return free(op.sequence);
    case CacheOpKind::fork:
      return fork(op.sequence, op.from, op.positions);
    case CacheOpKind::truncate:
      return truncate(op.sequence, op.positions);
  }
  throw std::logic_error("cache operation out of range");
}

void BlockTable::free(std::int32_t sequence) {
  if (find(sequence) != nullptr) truncate(sequence, 0);
}

void BlockTable::fork(std::int32_t sequence, std::int32_t from, std::int32_t positions) {
  require(length(sequence) == 0, "fork: to a sequence that holds nothing");
  require(0 <= positions && positions <= length(from), "fork: positions that the sequence has");
  if (positions == 0) return;
  const Sequence& parent = sequences_.at(from);
  const auto count =
      std::min(parent.blocks.size(), static_cast<std::size_t>(blocks_for(positions)));
  Sequence child;
  child.length = positions;
  child.held = before(parent.held, positions);
  child.blocks.assign(parent.blocks.begin(),
                      parent.blocks.begin() + static_cast<std::ptrdiff_t>(count));
  for (const std::int32_t block : child.blocks)
    if (block != kNoBlock) ++references_[static_cast<std::size_t>(block)];
  sequences_.insert_or_assign(sequence, std::move(child));
}

void BlockTable::truncate(std::int32_t sequence, std::int32_t positions) {
  require(0 <= positions && positions <= length(sequence),
          "truncate: positions that the sequence has");
  const auto found = sequences_.find(sequence);
  if (found == sequences_.end()) return;
  Sequence& s = found->second;
  // The last first: the next sequence then gets them in the order of positions.
  while (s.blocks.size() > static_cast<std::size_t>(blocks_for(positions))) {
    drop(s.blocks.back());
    s.blocks.pop_back();
  }
  if (positions == 0) {
    sequences_.erase(found);
    return;
  }
  s.length = positions;
  s.held = before(s.held, positions);
  s.appended = {};
}

}  // namespace tandem::model
