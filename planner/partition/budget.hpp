#pragma once

// What a split of heads and columns costs each device in memory, and how much fits.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Heads and FFN columns, in every layer, by DeviceIndex.
struct Split {
  std::vector<std::int64_t> heads;
  std::vector<std::int64_t> columns;
  bool operator==(const Split&) const = default;
};

// FFN columns are dealt in multiples of this: 16 where the model has many times as many and a
// multiple of them, else 1. Rows of ffn_down's weights and of its input are as long as the device
// has columns; unless every row begins with a cache line, that product of a prompt takes up to 40%
// longer (0004).
[[nodiscard]] std::int64_t column_unit(const model::Transformer& transformer);

// What columns have to be dealt in: a device's part of a row of ffn_down is whole blocks of the
// weights' format (1, of formats without blocks). column_unit() is a multiple of it.
[[nodiscard]] std::int64_t least_column_unit(const model::Transformer& transformer);

// Query heads are dealt in multiples of this: those of a key/value head, where what prompts drop is
// chosen by it at one device, else 1.
[[nodiscard]] std::int64_t head_unit(const Plan& plan);

// That unit if all columns of `split` are dealt in it, else the least.
[[nodiscard]] std::int64_t column_unit(const model::Transformer& transformer, const Split& split);

// Shares of `split`: devices follow one another through the heads and through the columns, take
// part in all layers if they hold anything, and the master holds embedding and head.
[[nodiscard]] std::vector<model::Share> to_shares(const model::Transformer& transformer,
                                                  model::DeviceIndex master, const Split& split);

// As many heads, with as many key/value heads, where blocks of `out` that they share with others
// cost most memory: what fits there fits wherever shares come to lie.
[[nodiscard]] model::Range widest(const model::Transformer& transformer, model::Range heads);

// Key/value heads of a run of query heads depend on where it begins: as few as possible, or as many
// as possible (it cuts a group at either end).
enum class GroupCut { none, worst };

class Budget {
 public:
  // `plan`: model, cluster, master, workload and profiles are read, shares are not; it outlives the
  // budget. `exchange`: bytes by device for receive buffers and messages, whatever its share.
  // `windows`: by device; empty: weights are held whole.
  Budget(const Plan& plan, std::vector<double> exchange, std::vector<Window> windows = {});

  [[nodiscard]] std::size_t devices() const { return exchange_.size(); }
  // Peak memory of a device with `share`: the prompt in one step, the cache at its longest.
  [[nodiscard]] model::MemoryUse use(std::size_t device, const model::Share& share) const;
  // Peak memory of a device with `share` if its window were `window`.
  [[nodiscard]] model::MemoryUse use(std::size_t device, const model::Share& share,
                                     Window window) const;
  [[nodiscard]] double bytes(std::size_t device) const;  // the device's memory
  [[nodiscard]] Window window(std::size_t device) const { return windows_[device]; }
  // The most heads (columns) that fit beside so many columns (heads); -1: not even none.
  [[nodiscard]] std::int64_t max_heads(std::size_t device, std::int64_t columns,
                                       GroupCut cut) const;
  [[nodiscard]] std::int64_t max_columns(std::size_t device, std::int64_t heads,
                                         GroupCut cut) const;
  // The most columns beside these heads; -1: not even none.
  [[nodiscard]] std::int64_t max_columns(std::size_t device, model::Range heads) const;
  // Whether every device of `split` stays within its memory and, where the strategy parts rows
  // besides, some device can have them.
  [[nodiscard]] bool fits(const Split& split) const;
  // One line a device of `split` that does not fit, and what the cluster as a whole lacks, or that
  // nobody can have rows; empty if it fits.
  [[nodiscard]] std::string shortage(const Split& split) const;
  // The lines for shares that are given by DeviceIndex.
  [[nodiscard]] std::string shortage(const std::vector<model::Share>& shares) const;

  [[nodiscard]] const Plan& plan() const { return *plan_; }

 private:
  [[nodiscard]] bool fits(std::size_t device, model::Range heads, std::int64_t columns) const;
  // Whether rows of prompts have an owner, if they need one.
  [[nodiscard]] bool rows_have_owner(const std::vector<model::Share>& shares) const;
  // Where heads begin that cut so.
  [[nodiscard]] model::Range placed(std::int64_t heads, GroupCut cut) const;

  const Plan* plan_;
  model::Extents extents_;
  std::vector<double> exchange_;
  std::vector<Window> windows_;
};

}  // namespace tandem::planner
