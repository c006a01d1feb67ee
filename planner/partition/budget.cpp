#include "planner/partition/budget.hpp"

#include <algorithm>
#include <numeric>

#include "model/base/quantity_text.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/rows.hpp"

namespace tandem::planner {
namespace {

using model::Bytes;
using model::Range;
using model::Share;

// The largest n in [0, most] for which fits(n), which holds up to some n and not beyond; -1: none.
template <class Fits>
std::int64_t largest(std::int64_t most, const Fits& fits) {
  std::int64_t good = -1;
  for (std::int64_t bad = most + 1; bad - good > 1;) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

Share make_share(const model::Transformer& transformer, bool master, Range heads, Range columns) {
  Share share;
  if (master || !heads.empty() || !columns.empty()) {
    share.layers = {0, static_cast<std::int32_t>(transformer.layers)};
  }
  share.heads = heads;
  share.columns = columns;
  share.embedding = share.head = master;
  return share;
}

Range take(std::int32_t& next, std::int64_t count) {
  const std::int32_t begin = next;
  next += static_cast<std::int32_t>(count);
  return {begin, next};
}

}  // namespace

std::int64_t column_unit(const model::Transformer& transformer) {
  constexpr std::int64_t kLine = 64 / sizeof(float);
  constexpr std::int64_t kMany = 32;
  const std::int64_t columns = transformer.intermediate;
  const std::int64_t least = least_column_unit(transformer);
  return columns % kLine == 0 && columns / kLine >= kMany ? std::max(kLine, least) : least;
}

std::int64_t least_column_unit(const model::Transformer& transformer) {
  return transformer.column_block();
}

std::int64_t column_unit(const model::Transformer& transformer, const Split& split) {
  const std::int64_t unit = column_unit(transformer);
  const bool whole =
      std::ranges::all_of(split.columns, [&](std::int64_t columns) { return columns % unit == 0; });
  return whole ? unit : least_column_unit(transformer);
}

std::vector<Share> to_shares(const model::Transformer& transformer, model::DeviceIndex master,
                             const Split& split) {
  std::vector<Share> shares;
  std::int32_t head = 0;
  std::int32_t column = 0;
  for (std::size_t d = 0; d < split.heads.size(); ++d) {
    const Range heads = take(head, split.heads[d]);
    const Range columns = take(column, split.columns[d]);
    shares.push_back(
        make_share(transformer, d == static_cast<std::size_t>(master), heads, columns));
  }
  return shares;
}

std::int64_t head_unit(const Plan& plan) {
  const bool whole = plan.sparse && plan.sparse->drops() && sharding_of(plan).sparse_by_rank();
  return whole ? plan.model.group() : 1;
}

Budget::Budget(const Plan& plan, std::vector<double> exchange, std::vector<Window> windows)
    : plan_(&plan),
      extents_(extents_of(plan.reserved())),
      exchange_(std::move(exchange)),
      windows_(std::move(windows)) {
  windows_.resize(exchange_.size());
}

model::MemoryUse Budget::use(std::size_t device, const Share& share) const {
  return use(device, share, windows_[device]);
}

model::MemoryUse Budget::use(std::size_t device, const Share& share, Window window) const {
  const double program = plan_->profiles[device].program_bytes;
  const bool idle = share.layers.empty() && !share.embedding && !share.head;
  // If a strategy gives other devices nothing, their memory does not matter; where they wait for a
  // share, the program alone has to fit.
  const Strategy& strategy = find_strategy(plan_->strategy);
  if (idle) return {.program = strategy.sharding.is_local() ? 0.0 : program};
  model::MemoryUse memory = model::memory_use(
      {.buffers = strategy.buffers_of(*plan_, static_cast<model::DeviceIndex>(device), share,
                                      window.streams())},
      extents_);
  memory.weights = weight_bytes(plan_->model, share, window);
  memory.buffers = exchange_[device];
  memory.program = program;
  return memory;
}

double Budget::bytes(std::size_t device) const {
  return plan_->cluster.devices()[device].memory.value();
}

Range widest(const model::Transformer& transformer, Range heads) {
  const std::int64_t unit = transformer.head_unit();
  if (unit == 1 || heads.empty()) return heads;
  // Blocks of `out` repeat every `unit` heads, key/value heads every group.
  const std::int32_t touched = transformer.kv_heads_for(heads).size();
  const auto period = static_cast<std::int32_t>(std::min<std::int64_t>(
      std::lcm(unit, transformer.group()), transformer.heads - heads.size() + 1));
  const auto blocks = [&](Range range) {
    std::int64_t most = 0;
    for (const model::WeightFormat format : transformer.formats_used()) {
      const std::int64_t size = model::block_of(format).elements;
      const std::int64_t end = range.end * transformer.out_dims();
      most += (end + size - 1) / size * size - range.begin * transformer.out_dims() / size * size;
    }
    return most;
  };
  Range best = heads;
  for (std::int32_t begin = 0; begin < period; ++begin) {
    const Range other{begin, begin + heads.size()};
    if (transformer.kv_heads_for(other).size() == touched && blocks(other) > blocks(best))
      best = other;
  }
  return best;
}

model::Range Budget::placed(std::int64_t heads, GroupCut cut) const {
  std::int32_t begin = cut == GroupCut::none
                           ? 0
                           : static_cast<std::int32_t>(
                                 std::min(plan_->model.group() - 1, plan_->model.heads - heads));
  return widest(plan_->model, take(begin, heads));
}

bool Budget::fits(std::size_t device, Range heads, std::int64_t columns) const {
  std::int32_t first_column = 0;
  const Share share = make_share(plan_->model, device == static_cast<std::size_t>(plan_->master),
                                 heads, take(first_column, columns));
  return use(device, share).total() <= bytes(device);
}

std::int64_t Budget::max_heads(std::size_t device, std::int64_t columns, GroupCut cut) const {
  return largest(plan_->model.heads,
                 [&](std::int64_t heads) { return fits(device, placed(heads, cut), columns); });
}

std::int64_t Budget::max_columns(std::size_t device, std::int64_t heads, GroupCut cut) const {
  return max_columns(device, placed(heads, cut));
}

std::int64_t Budget::max_columns(std::size_t device, Range heads) const {
  abandon_if_overdue();  // a search asks for every number of heads of many devices
  return largest(plan_->model.intermediate,
                 [&](std::int64_t columns) { return fits(device, heads, columns); });
}

bool Budget::may_fit() const {
  if (std::ranges::any_of(windows_, &Window::streams)) return true;
  const model::Transformer& t = plan_->model;
  const Share all{.layers = whole_range(t.layers),
                  .heads = whole_range(t.heads),
                  .columns = whole_range(t.intermediate),
                  .embedding = true,
                  .head = true};
  double room = 0.0;
  for (std::size_t d = 0; d < devices(); ++d)
    room += std::max(0.0, bytes(d) - exchange_[d] - plan_->profiles[d].program_bytes);
  return weight_bytes(t, all, {}) <= room;
}

bool Budget::fits(const Split& split) const {
  const std::vector<Share> shares = to_shares(plan_->model, plan_->master, split);
  for (std::size_t d = 0; d < shares.size(); ++d) {
    if (use(d, shares[d]).total() > bytes(d)) return false;
  }
  return rows_have_owner(shares);
}

bool Budget::rows_have_owner(const std::vector<Share>& shares) const {
  const Sharding& sharding = sharding_of(*plan_);
  return !sharding.splits_heads() || !sharding.splits_rows() ||
         std::ranges::any_of(shares, has_rows);
}

std::string Budget::shortage(const Split& split) const {
  return shortage(to_shares(plan_->model, plan_->master, split));
}

std::string Budget::shortage(const std::vector<Share>& shares) const {
  std::string lines;
  double needed = 0.0;
  double available = 0.0;
  for (std::size_t d = 0; d < shares.size(); ++d) {
    const model::MemoryUse memory = use(d, shares[d]);
    needed += memory.total();
    available += bytes(d);
    const double lack = memory.total() - bytes(d);
    if (lack <= 0.0) continue;
    lines += "device '" + plan_->cluster.devices()[d].name + "': lacks " + to_text(Bytes{lack}) +
             ": needs " + to_text(Bytes{memory.total()}) + " (weights " +
             to_text(Bytes{memory.weights}) + ", KV cache " + to_text(Bytes{memory.kv_cache}) +
             ", activations " + to_text(Bytes{memory.activations}) +
             // Not counted where weights alone are too much.
             (memory.buffers > 0.0 ? ", buffers " + to_text(Bytes{memory.buffers}) : "") +
             ", program " + to_text(Bytes{memory.program}) + "), has " + to_text(Bytes{bytes(d)}) +
             "\n";
  }
  if (!lines.empty() && needed > available) {
    lines += "the whole cluster lacks " + to_text(Bytes{needed - available}) + ": needs " +
             to_text(Bytes{needed}) + ", has " + to_text(Bytes{available}) + "\n";
  }
  if (lines.empty() && !rows_have_owner(shares)) {
    lines = "no device has room for both a head and FFN columns, which strategy '" +
            plan_->strategy + "' parts a prompt's rows among\n";
  }
  return lines;
}

}  // namespace tandem::planner
