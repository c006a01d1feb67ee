#pragma once

// The devices' key/value caches as a scheduler sees them: what active requests have reserved, which
// blocks they share, and whose blocks are kept after their end.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "model/graph/block_table.hpp"
#include "model/graph/task_graph.hpp"
#include "planner/serving/kept_prefixes.hpp"

namespace tandem::planner {

// Admission reserves whole blocks for a request's limit, but counts a block that several active
// requests share only once. Kept sequences use blocks that no active request needs: the least
// recently used are freed when a step needs more blocks than are free. With all of them freed every
// active request has what is reserved for it, so keeping delays no request.
//
// Operations are collected until the next step; all devices execute them in the same order.
class SequenceCache {
 public:
  // `positions`: of all sequences together. Unless it `shares`, every sequence has blocks of its
  // own, which are freed at its end.
  SequenceCache(std::int64_t positions, bool shares);

  // A sequence that begins with the same tokens, and how many positions of it can be taken over.
  struct Prefix {
    std::int32_t from = -1;
    std::int64_t positions = 0;
  };
  // Returns the longest prefix of `prompt` that steps so far have computed, of an active or a kept
  // sequence; at most all tokens but the last, whose logits are needed.
  [[nodiscard]] Prefix find(std::span<const std::int32_t> prompt) const;

  // Returns the positions that active sequences have reserved: whole blocks, shared ones once.
  [[nodiscard]] std::int64_t reserved() const;
  // Returns the positions that a request of up to `positions` reserves in addition.
  [[nodiscard]] std::int64_t needs(std::int64_t positions,
                                   std::span<const std::int32_t> prompt) const;

  // Adds an active sequence of up to `positions`. `prompt` identifies its contents: equal numbers
  // are equal tokens. Empty: it shares with none.
  void admit(std::int32_t sequence, std::int64_t positions, std::vector<std::int32_t> prompt);
  // Begins a sequence, before its first rows, with the longest prefix that there is now. Returns
  // its length.
  std::int64_t begin(std::int32_t sequence);
  // Returns the length that begin() would return now.
  [[nodiscard]] std::int64_t available(std::int32_t sequence) const;
  // Returns how many tokens of an active sequence's prompt, but the last, are those of another's.
  [[nodiscard]] std::int64_t common(std::int32_t sequence, std::int32_t other) const;
  // Enters the rows of the next step and returns its cache operations, in order.
  [[nodiscard]] std::vector<model::CacheOp> enter(std::span<const model::Segment> rows);
  // Ends an active sequence, which has no rows in flight. `contents`: of all its positions, as of
  // admit(); empty: they are freed.
  void end(std::int32_t sequence, std::vector<std::int32_t> contents);

 private:
  struct Active {
    std::int64_t reserved = 0;
    std::int64_t counted = 0;  // its first blocks, which held_ counts
    bool entered = false;      // has had rows
    std::vector<std::int32_t> prompt{};
  };
  // Returns the prefix that begin() takes over, longer than what the sequence has: none where
  // fewer of its blocks were shared, so that more would be reserved than there are.
  [[nodiscard]] Prefix longer_prefix(std::int32_t sequence) const;
  void apply(const model::CacheOp& op);
  void count(std::int32_t sequence, Active& active, std::int64_t blocks);
  void uncount(std::int32_t sequence, Active& active);
  void hold(std::int32_t block, std::int32_t change);
  void append(const model::Segment& rows);
  bool evict();

  bool shares_;
  std::map<std::int32_t, Active> active_;
  std::int64_t reserved_ = 0;  // the sum of the active sequences'
  KeptPrefixes kept_;
  model::BlockTable table_;  // as the devices' after the steps so far; empty unless it shares
  std::vector<std::int32_t> held_;  // by block: active sequences that have it for good
  std::int64_t saved_ = 0;          // positions reserved more than once
  std::vector<model::CacheOp> operations_;
};

}  // namespace tandem::planner
