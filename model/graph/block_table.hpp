#pragma once

// Which block of a device's key/value cache holds which positions of which sequence. Bookkeeping
// only: the executor keeps the memory (exec/compute). A scheduler may keep a table of its own to
// track the free blocks of devices: the same operations in the same order use the same blocks.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "model/base/range.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::model {

// A block holds the positions [i kCacheBlock, (i + 1) kCacheBlock) of one sequence, where i is its
// index in the sequence's table; sequences with these positions in common share it. Sequences are
// numbered from 0. A sequence without appends, or after a free, holds nothing.
class BlockTable {
 public:
  static constexpr std::int32_t kNoBlock = -1;

  // Throws logic_error unless 0 <= blocks.
  explicit BlockTable(std::int64_t blocks);

  // A block must be copied before it is written: its first `positions` to block `to`.
  struct Copy {
    std::int32_t from = 0;
    std::int32_t to = 0;
    std::int32_t positions = 0;
    bool operator==(const Copy&) const = default;
  };

  // Allocates blocks for `positions`, which are written next. They either continue the sequence
  // (begin where it ends) or repeat its last append: a step that visits a device twice writes other
  // layers of the same positions. Replaces written blocks that are shared, and returns what to
  // copy. Throws logic_error for other positions and Error if too few blocks are free; the table is
  // then unchanged.
  [[nodiscard]] std::vector<Copy> append(std::int32_t sequence, Range positions);
  // Extends the sequence by `positions` that another device holds. Throws logic_error unless they
  // begin where it ends.
  void skip(std::int32_t sequence, Range positions);
  // Executes an operation, as model/graph/task_graph.hpp describes it. Throws logic_error for
  // misuse: a fork from nothing or to a sequence that holds something, positions beyond the
  // sequence's.
  void apply(const CacheOp& op);
  // Frees every sequence.
  void clear();
  // Adds so many blocks. Throws logic_error if there would be too many to be numbered.
  void grow(std::int64_t blocks);

  // The sequence's blocks by position / kCacheBlock, kNoBlock where it has none here. Valid until
  // the sequence is next changed.
  [[nodiscard]] std::span<const std::int32_t> blocks(std::int32_t sequence) const;
  // Returns the length of the sequence, here and elsewhere; 0 if it holds nothing.
  [[nodiscard]] std::int32_t length(std::int32_t sequence) const;
  // Returns the positions of the last append; empty if the sequence has changed since.
  [[nodiscard]] Range appended(std::int32_t sequence) const;
  // Returns whether all of `positions` are in blocks of this device.
  [[nodiscard]] bool holds(std::int32_t sequence, Range positions) const;

  // Returns how many blocks append would allocate now.
  [[nodiscard]] std::int64_t needs(std::int32_t sequence, Range positions) const;
  [[nodiscard]] std::int64_t free_blocks() const { return static_cast<std::int64_t>(free_.size()); }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(references_.size()); }
  // Returns how many sequences share the block.
  [[nodiscard]] std::int32_t references(std::int32_t block) const;

 private:
  struct Sequence {
    std::int32_t length = 0;
    std::vector<Range> held;  // positions with a place in a block, ascending, with gaps between
    std::vector<std::int32_t> blocks;
    Range appended{};  // last; empty if the sequence has changed since
  };

  void free(std::int32_t sequence);
  void fork(std::int32_t sequence, std::int32_t from, std::int32_t positions);
  void truncate(std::int32_t sequence, std::int32_t positions);
  [[nodiscard]] std::int32_t take();
  void drop(std::int32_t block);
  [[nodiscard]] const Sequence* find(std::int32_t sequence) const;

  std::unordered_map<std::int32_t, Sequence> sequences_;
  std::vector<std::int32_t> references_;  // by block
  std::vector<std::int32_t> free_;        // used from the end
};

}  // namespace tandem::model
