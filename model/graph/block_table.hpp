#pragma once

// Which block of a device's key/value cache has which positions of which sequence. Bookkeeping
// only: the executor keeps memory beside it (exec/compute), and whoever schedules may keep one to
// know what devices have left, as the same operations in the same order take the same blocks.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "model/base/range.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::model {

// A block has the positions [i kCacheBlock, (i + 1) kCacheBlock) of one sequence, i its place in
// the sequence's table, or is shared by sequences that have these positions in common. Sequences
// are named by any number from 0. A sequence that was never appended to holds nothing; neither does
// one that was freed.
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

  // Takes blocks for `positions`, which are about to be written and continue the sequence (begin
  // where it ends), or are exactly those that it was appended last: a step that visits a device
  // twice writes other layers of them. Blocks that are written and shared are replaced; returns
  // what to copy. Throws logic_error if the positions are others, Error if there are too few
  // blocks; then nothing has changed.
  [[nodiscard]] std::vector<Copy> append(std::int32_t sequence, Range positions);
  // The sequence continues with `positions`, which another device holds. Throws logic_error unless
  // they begin where it ends.
  void skip(std::int32_t sequence, Range positions);
  // Executes an operation, as model/graph/task_graph.hpp describes it. Throws logic_error for
  // misuse: a fork from nothing or to a sequence that holds something, positions beyond the
  // sequence's.
  void apply(const CacheOp& op);
  // Frees every sequence.
  void clear();
  // Has so many blocks more. Throws logic_error if they are too many to be numbered.
  void grow(std::int64_t blocks);

  // The sequence's blocks by position / kCacheBlock, kNoBlock where it has none here. Valid until
  // the sequence is next changed.
  [[nodiscard]] std::span<const std::int32_t> blocks(std::int32_t sequence) const;
  // Positions that the sequence has, here or elsewhere; 0 if it holds nothing.
  [[nodiscard]] std::int32_t length(std::int32_t sequence) const;
  // The positions that it was appended last; empty if something else happened since.
  [[nodiscard]] Range appended(std::int32_t sequence) const;
  // Whether all of `positions` are in blocks of this device.
  [[nodiscard]] bool holds(std::int32_t sequence, Range positions) const;

  // How many blocks append would take now.
  [[nodiscard]] std::int64_t needs(std::int32_t sequence, Range positions) const;
  [[nodiscard]] std::int64_t free_blocks() const { return static_cast<std::int64_t>(free_.size()); }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(references_.size()); }
  // How many sequences' tables name the block.
  [[nodiscard]] std::int32_t references(std::int32_t block) const;

 private:
  struct Sequence {
    std::int32_t length = 0;
    std::vector<Range> held;  // positions with a place in a block, ascending, with gaps between
    std::vector<std::int32_t> blocks;
    Range appended{};  // last; empty if something else happened since
  };

  void free(std::int32_t sequence);
  void fork(std::int32_t sequence, std::int32_t from, std::int32_t positions);
  void truncate(std::int32_t sequence, std::int32_t positions);
  [[nodiscard]] std::int32_t take();
  void drop(std::int32_t block);
  [[nodiscard]] const Sequence* find(std::int32_t sequence) const;

  std::unordered_map<std::int32_t, Sequence> sequences_;
  std::vector<std::int32_t> references_;  // by block
  std::vector<std::int32_t> free_;        // the next one taken is the last
};

}  // namespace tandem::model
