// Tasks of sparse attention: which rows are kept, and attention over rows that were gathered.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "exec/compute/compute_state.hpp"
#include "exec/kernels/attention.hpp"
#include "exec/kernels/cached_row.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

using model::BufferKind;
using model::Range;
using model::Task;

namespace {

// Maps a score to an integer of the same order; NaN is lowest.
std::uint32_t order_of(float score) {
  if (std::isnan(score)) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(score);
  return (bits >> 31U) != 0U ? ~bits : bits | 0x80000000U;
}

}  // namespace

class Compute::State::Rows {
 public:
  Rows(const State& state, const Task& task)
      : list_(task.selection > 0 ? state.buffer({BufferKind::selection, task.selection})
                                 : Buffer{}) {
    require(task.selection == 0 || list_.width == state.kv_share.size(),
            "a list of every key/value head");
    first_ = state.kv_share.begin;
  }
  [[nodiscard]] std::int32_t of(std::int32_t row, std::int32_t kv_head) const {
    if (list_.data == nullptr) return row;
    return std::bit_cast<std::int32_t>(*list_.at(row, kv_head - first_));
  }

 private:
  Buffer list_;
  std::int32_t first_ = 0;
};

// Finds the lowest kept score by bisection of its integer: needs no memory.
void Compute::State::select(const Task& task) {
  const Buffer x = operand(task.input, task, kv_share.size());
  const Buffer y = buffer(task.output);
  const Range kv = transformer.kv_heads_for(task.columns);
  const std::int64_t wanted = task.keys.size();
  require(y.width == kv_share.size() && task.keys.end <= y.rows && wanted <= task.rows.size(),
          "a list of some of the task's rows");
  pool.parallel_for(kv.size(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t head = kv.begin + begin; head < kv.begin + end; ++head) {
      const std::int64_t column = head - kv_share.begin;
      const auto above = [&](std::uint32_t least) {
        std::int64_t count = 0;
        for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row)
          count += order_of(*x.at(row, column)) >= least ? 1 : 0;
        return count;
      };
      std::uint32_t least = 0;  // the largest with so many rows at or above it
      for (std::uint32_t bit = 0x80000000U; bit != 0; bit >>= 1U) {
        if (above(least | bit) >= wanted) least |= bit;
      }
      std::int64_t ties = wanted - (least == 0xFFFFFFFFU ? 0 : above(least + 1));
      std::int32_t to = task.keys.begin;
      for (std::int32_t row = task.rows.begin; row < task.rows.end && to < task.keys.end; ++row) {
        const std::uint32_t own = order_of(*x.at(row, column));
        if (own < least || (own == least && ties-- <= 0)) continue;
        *y.at(to++, column) = std::bit_cast<float>(row);
      }
    }
  });
}

void Compute::State::gather(const model::Batch& batch, const Task& task) {
  const std::int64_t d = transformer.head_dim;
  const std::int64_t group = transformer.group();
  const Rows rows(*this, task);
  const Range kv = transformer.kv_heads_for(task.columns);
  require(task.columns.begin % group == 0 && task.columns.end % group == 0,
          "what is gathered is of whole key/value heads");
  need_heads(task);
  const Buffer y = buffer(task.output);
  require(task.rows.end <= y.rows, "room for what is gathered");
  if (task.input.kind == BufferKind::key_value) {
    require(batch.segments.size() == 1 && y.width == 2 * d * kv_share.size(),
            "keys and values of one sequence");
    const model::Segment& segment = batch.segments.front();
    const std::span<const std::int32_t> blocks = cache.table().blocks(segment.sequence);
    for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row) {
      for (std::int32_t head = kv.begin; head < kv.end; ++head) {
        const std::int32_t position = segment.past + rows.of(row, head);
        require(cache.table().holds(segment.sequence, {position, position + 1}),
                "what is gathered is cached");
        const CachedHead home = cache.head(blocks, task.layer, head);
        float* const key = y.at(row, 2 * d * (head - kv_share.begin));
        load_key(home, position, d, key);
        load_value(home, position, d, key + d);
      }
    }
    return;
  }
  const Buffer x = buffer(task.input);
  const std::int64_t width = task.input.kind == BufferKind::softmax ? 2 : d;
  require(x.width == width * share.heads.size() && y.width == x.width && x.data != y.data,
          "operands of the same heads");
  for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row) {
    for (std::int32_t head = kv.begin; head < kv.end; ++head) {
      const std::int32_t from = rows.of(row, head);
      require(0 <= from && from < x.rows, "a list of rows that there are");
      const std::int64_t column = width * (head * group - share.heads.begin);
      std::copy_n(x.at(from, column), width * group, y.at(row, column));
    }
  }
}

CachedHead Compute::State::packed(const Task& task, std::int32_t kv_head) {
  static constexpr std::int32_t kFirst = 0;
  const std::int64_t d = transformer.head_dim;
  const Buffer from = buffer({BufferKind::gathered, task.input.slot});
  const Buffer to = buffer({BufferKind::packed_kv});
  const std::int64_t granules = (task.keys.size() + kBlockGranule - 1) / kBlockGranule;
  require(task.keys.end <= from.rows && from.width == 2 * d * kv_share.size() &&
              to.width == 2 * d && granules * kBlockGranule <= to.rows,
          "keys that were gathered, and room to pack them");
  const CachedHead head{.memory = reinterpret_cast<std::byte*>(to.data),
                        .blocks = &kFirst,
                        .block_positions = std::max<std::int64_t>(1, granules) * kBlockGranule,
                        .format = model::CacheFormat::f32};
  pool.parallel_for(
      task.keys.size(), kBlockGranule, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) {
          const float* const row = from.at(task.keys.begin + i, 2 * d * (kv_head - kv_share.begin));
          if (!store_key(row, i, head, d) || !store_value(row + d, i, head, d))
            throw std::logic_error("f32 keeps every key and value");
        }
      });
  return head;
}

template <class Body>
void Compute::State::for_sight(const Task& task, const Rows& rows, Range some, std::int32_t kv_head,
                               const Body& body) const {
  if (some.empty()) return;
  const auto position_at = [&](std::int32_t key) { return rows.of(key, kv_head); };
  const auto seen = [&](std::int32_t row) {
    std::int32_t begin = 0;
    std::int32_t end = task.keys.size();
    while (begin < end) {
      const std::int32_t middle = begin + (end - begin) / 2;
      if (position_at(task.keys.begin + middle) <= rows.of(row, kv_head)) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  };
  std::int32_t at = seen(some.begin);
  // Later rows see no fewer.
  if (at == seen(some.end - 1)) return body(some, at, 0);
  for (std::int32_t begin = some.begin; begin < some.end;) {
    const std::int32_t first = at;
    std::int32_t more = 0;
    std::int32_t end = begin + 1;
    for (; end < some.end; ++end) {
      const std::int32_t before = at;
      while (at < task.keys.size() && position_at(task.keys.begin + at) <= rows.of(end, kv_head))
        ++at;
      if (end == begin + 1) more = at - before;
      if (at - before != more || more > 1) break;
    }
    body(Range{begin, end}, first, end == begin + 1 ? 0 : more);
    begin = end;
  }
}

void Compute::State::attend_gathered(const Task& task) {
  const Buffer q = operand(task.input, task, query.width);
  const Buffer y = operand(task.output, task, attention.width);
  const std::int64_t numbers = std::int64_t{2} * share.heads.size();
  const Buffer softmax =
      task.statistics ? operand({BufferKind::softmax, task.output.slot}, task, numbers) : Buffer{};
  require(q.data != y.data, "attention does not work in place");
  require(transformer.architecture().mask == model::Mask::causal && task.window == 0,
          "what was gathered is attended with a causal mask, without a window");
  const Rows rows(*this, task);
  const std::int64_t d = transformer.head_dim;
  const auto group = static_cast<std::int32_t>(transformer.group());
  const std::int64_t tiles = (task.rows.size() + kAttendRows - 1) / kAttendRows;
  const Range kv = transformer.kv_heads_for(task.columns);
  for (std::int32_t head = kv.begin; head < kv.end; ++head) {
    const CachedHead keys = packed(task, head);
    const Range mine = task.columns.intersect({head * group, (head + 1) * group});
    const std::int64_t splits = std::min<std::int64_t>(
        mine.size(), (pool.threads() + tiles - 1) / std::max<std::int64_t>(tiles, 1));
    pool.parallel_for(tiles * splits, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t item = begin; item < end; ++item) {
        const auto first = static_cast<std::int32_t>(task.rows.begin + item / splits * kAttendRows);
        const Range some =
            Range{first, static_cast<std::int32_t>(first + kAttendRows)}.intersect(task.rows);
        const std::int64_t split = item % splits;
        const std::int64_t from = mine.begin + mine.size() * split / splits;
        const std::int64_t to = mine.begin + mine.size() * (split + 1) / splits;
        for_sight(task, rows, some, head, [&](Range own, std::int32_t seen, std::int32_t more) {
          kernels.attend({.queries = q.at(own.begin, (from - share.heads.begin) * d),
                          .query_stride = q.width,
                          .cache = keys,
                          .output = y.at(own.begin, (from - share.heads.begin) * d),
                          .output_stride = y.width,
                          .rows = own.size(),
                          .group = to - from,
                          .head_dim = d,
                          .first_key = 0,
                          .end_key = seen + more * (own.size() - 1),
                          .past = more > 0 ? seen - 1 : task.keys.size(),
                          .scale = static_cast<float>(transformer.attention_scale),
                          .cap = static_cast<float>(transformer.score_cap),
                          .softmax = softmax.data == nullptr
                                         ? nullptr
                                         : softmax.at(own.begin, 2 * (from - share.heads.begin)),
                          .softmax_stride = softmax.width});
        });
      }
    });
  }
}

void Compute::State::score(const model::Batch& batch, const Task& task) {
  (void)layer(task);
  need_heads(task);
  const Buffer q = operand(task.input, task, query.width);
  const Buffer softmax =
      operand({BufferKind::softmax, task.input.slot}, task, std::int64_t{2} * share.heads.size());
  const Buffer y = buffer(task.output);
  const bool gathered = reads_gathered(task);
  require(y.width == kv_share.size() && task.keys.end <= y.rows, "room for what keys weigh");
  require(transformer.architecture().mask == model::Mask::causal && batch.segments.size() == 1,
          "scores are of one sequence with a causal mask");
  const model::Segment& segment = batch.segments.front();
  require(gathered || (segment.past == 0 && task.keys.end <= segment.rows),
          "scores of cached keys are of rows of the batch");
  const Rows rows(*this, task);
  const std::int64_t d = transformer.head_dim;
  const auto group = static_cast<std::int32_t>(transformer.group());
  const Range kv = transformer.kv_heads_for(task.columns);
  const std::span<const std::int32_t> blocks =
      gathered ? std::span<const std::int32_t>() : cache.table().blocks(segment.sequence);
  if (!gathered) need_cached(batch, task);
  for (std::int32_t head = kv.begin; head < kv.end; ++head) {
    const CachedHead keys = gathered ? packed(task, head) : cache.head(blocks, task.layer, head);
    const Range mine = task.columns.intersect({head * group, (head + 1) * group});
    const std::int64_t column = mine.begin - share.heads.begin;
    // For keys [from, to), numbered as by the kernel.
    const auto weigh = [&](Range own, std::int64_t from, std::int64_t to, std::int64_t past) {
      const std::int64_t first = gathered ? task.keys.begin + from : from;
      kernels.weigh_keys({.queries = q.at(own.begin, column * d),
                          .query_stride = q.width,
                          .cache = keys,
                          .rows = own.size(),
                          .group = mine.size(),
                          .head_dim = d,
                          .first_key = from,
                          .end_key = to,
                          .past = past,
                          .scale = static_cast<float>(transformer.attention_scale),
                          .cap = static_cast<float>(transformer.score_cap),
                          .softmax = softmax.at(own.begin, 2 * column),
                          .softmax_stride = softmax.width},
                         y.at(first, head - kv_share.begin), y.width);
    };
    const Range all = gathered ? Range{0, task.keys.size()} : task.keys;
    const std::int64_t first_granule = all.begin / kBlockGranule;
    const std::int64_t granules = (all.end + kBlockGranule - 1) / kBlockGranule - first_granule;
    pool.parallel_for(granules, 1, [&](std::int64_t begin, std::int64_t end, int) {
      const std::int64_t from =
          std::max<std::int64_t>(all.begin, (first_granule + begin) * kBlockGranule);
      const std::int64_t to =
          std::min<std::int64_t>(all.end, (first_granule + end) * kBlockGranule);
      const std::int64_t first = gathered ? task.keys.begin + from : from;
      for (std::int64_t k = 0; k < to - from; ++k) *y.at(first + k, head - kv_share.begin) = 0.0F;
      if (!gathered) return weigh(task.rows, from, to, task.rows.begin);
      for_sight(task, rows, task.rows, head, [&](Range own, std::int32_t seen, std::int32_t more) {
        const std::int32_t most = seen + more * (own.size() - 1);
        if (most > from)
          weigh(own, from, std::min<std::int64_t>(to, most), more > 0 ? seen - 1 : seen);
      });
    });
  }
}

void Compute::State::add_listed(const Task& task) {
  const Buffer x = operand(task.input, task, kv_share.size());
  const Buffer y = buffer(task.output);
  require(task.input.kind == BufferKind::scores && task.output.kind == BufferKind::scores &&
              y.width == x.width,
          "what is added by a list are scores");
  const Rows rows(*this, task);
  for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row) {
    for (std::int32_t head = task.columns.begin; head < task.columns.end; ++head) {
      const std::int32_t to = rows.of(row, head + kv_share.begin);
      require(0 <= to && to < y.rows, "a list of rows that there are");
      *y.at(to, head) += *x.at(row, head);
    }
  }
}

void Compute::State::merge_listed(const Task& task, const Buffer& x, const Buffer& more,
                                  const Buffer& y, const Buffer& all) const {
  const Rows rows(*this, task);
  const std::int64_t d = transformer.head_dim;
  const auto group = static_cast<std::int32_t>(transformer.group());
  for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row) {
    for (std::int32_t head = task.columns.begin; head < task.columns.end; ++head) {
      const std::int32_t to = rows.of(row, head / group);
      require(0 <= to && to < y.rows, "a list of rows that there are");
      const std::int64_t column = head - share.heads.begin;
      kernels.merge({x.at(row, column * d), more.at(row, 2 * column)},
                    {y.at(to, column * d), all.at(to, 2 * column)}, 1, d);
    }
  }
}

}  // namespace tandem::exec
