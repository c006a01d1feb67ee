#pragma once

// The memory cost of a split of heads and columns on each device, and how much fits.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Heads and FFN columns in every layer, by DeviceIndex.
struct Split {
  std::vector<std::int64_t> heads;
  std::vector<std::int64_t> columns;
  bool operator==(const Split&) const = default;
};

// Returns the preferred unit of FFN columns: 16 if the model's number is a large multiple of it,
// else 1. Rows of ffn_down's weights and of its input are as long as the device's columns; unless
// every row begins with a cache line, that product of a prompt takes up to 40% longer (0004).
[[nodiscard]] std::int64_t column_unit(const model::Transformer& transformer);

// Returns the mandatory unit of FFN columns: a device's part of a row of ffn_down is whole blocks
// of the weights' format (1 for formats without blocks). column_unit() is a multiple of it.
[[nodiscard]] std::int64_t least_column_unit(const model::Transformer& transformer);

// Returns the unit of query heads: those of a key/value head if prompts drop rows by key/value head
// on one device, else 1.
[[nodiscard]] std::int64_t head_unit(const Plan& plan);

// Returns the preferred unit if all columns of `split` are multiples of it, else the mandatory one.
[[nodiscard]] std::int64_t column_unit(const model::Transformer& transformer, const Split& split);

// Returns the shares of `split`: devices follow one another through the heads and through the
// columns, have all layers if they hold anything, and the master holds embedding and head.
[[nodiscard]] std::vector<model::Share> to_shares(const model::Transformer& transformer,
                                                  model::DeviceIndex master, const Split& split);

// Returns a run of as many heads, with as many key/value heads, at the place where blocks of `out`
// shared with other devices cost the most memory: if it fits there, it fits anywhere.
[[nodiscard]] model::Range widest(const model::Transformer& transformer, model::Range heads);

// The key/value heads of a run of query heads depend on where it begins: as few as possible, or as
// many as possible (it cuts a group at either end).
enum class GroupCut { none, worst };

class Budget {
 public:
  // `plan`: model, cluster, master, workload and profiles are read, shares are not; it outlives the
  // budget. `exchange`: bytes by device for receive buffers and messages, whatever its share.
  // `windows`: by device; empty: all weights are resident.
  Budget(const Plan& plan, std::vector<double> exchange, std::vector<Window> windows = {});

  [[nodiscard]] std::size_t devices() const { return exchange_.size(); }
  // Returns the peak memory of a device with `share`: the prompt in one step, the longest cache.
  [[nodiscard]] model::MemoryUse use(std::size_t device, const model::Share& share) const;
  // Returns the same if the device's window were `window`.
  [[nodiscard]] model::MemoryUse use(std::size_t device, const model::Share& share,
                                     Window window) const;
  [[nodiscard]] double bytes(std::size_t device) const;  // the device's memory
  [[nodiscard]] Window window(std::size_t device) const { return windows_[device]; }
  // Return the most heads (columns) that fit beside so many columns (heads); -1: not even none.
  [[nodiscard]] std::int64_t max_heads(std::size_t device, std::int64_t columns,
                                       GroupCut cut) const;
  [[nodiscard]] std::int64_t max_columns(std::size_t device, std::int64_t heads,
                                         GroupCut cut) const;
  // Returns the most columns that fit beside these heads; -1: not even none.
  [[nodiscard]] std::int64_t max_columns(std::size_t device, model::Range heads) const;
  // Returns whether the devices together have room for all weights; false only if no split fits.
  [[nodiscard]] bool may_fit() const;
  // Returns whether every device of `split` stays within its memory and, if the strategy also
  // splits rows, some device can own them.
  [[nodiscard]] bool fits(const Split& split) const;
  // Returns one line for each device of `split` that does not fit, and what the cluster as a whole
  // lacks, or that no device can own rows; empty if it fits.
  [[nodiscard]] std::string shortage(const Split& split) const;
  // Returns these lines for shares by DeviceIndex.
  [[nodiscard]] std::string shortage(const std::vector<model::Share>& shares) const;

  [[nodiscard]] const Plan& plan() const { return *plan_; }

 private:
  [[nodiscard]] bool fits(std::size_t device, model::Range heads, std::int64_t columns) const;
  // Returns whether rows of prompts have an owner, if they need one.
  [[nodiscard]] bool rows_have_owner(const std::vector<model::Share>& shares) const;
  // Returns a run of so many heads with such a cut.
  [[nodiscard]] model::Range placed(std::int64_t heads, GroupCut cut) const;

  const Plan* plan_;
  model::Extents extents_;
  std::vector<double> exchange_;
  std::vector<Window> windows_;
};

}  // namespace tandem::planner
