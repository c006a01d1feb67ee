// Tasks of attention: queries, keys, values and their products.

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>

#include "exec/compute/compute_state.hpp"
#include "exec/kernels/attention.hpp"
#include "exec/kernels/cached_row.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

using model::Range;
using model::Task;

namespace {

// The rows of each head of `y`, [rows, heads * d], in order again.
void unpair(std::int64_t rows, std::int64_t heads, std::int64_t d, float* y, std::int64_t stride) {
  std::array<float, kMaxHeadDim> head;
  const std::int64_t half = d / 2;
  for (std::int64_t i = 0; i < rows * heads; ++i) {
    float* const mine = y + i / heads * stride + i % heads * d;
    for (std::int64_t k = 0; k < half; ++k) {
      head[static_cast<std::size_t>(k)] = mine[2 * k];
      head[static_cast<std::size_t>(k + half)] = mine[2 * k + 1];
    }
    std::copy_n(head.begin(), d, mine);
  }
}

}  // namespace

void refuse_stored(model::CacheFormat format, std::string_view what, std::int32_t layer,
                   std::int32_t position) {
  const std::int64_t most = model::row_of(format).most;
  const std::string beyond = most > 0 ? " or beyond " + std::to_string(most) : "";
  throw Error("cache type " + std::string(to_string(format)) + ": a " + std::string(what) +
              " of layer " + std::to_string(layer) + " at position " + std::to_string(position) +
              " has a number that is not finite" + beyond + "; the weights are damaged, or " +
              (most > 0 ? "'--cache-type f16' holds it" : "the model's numbers exceed f32"));
}

RopeTable* Compute::State::rope_of(std::int32_t layer) {
  if (!rope || !transformer.rotates(layer)) return nullptr;
  return window_rope && transformer.window_of(layer) > 0 ? &*window_rope : &*rope;
}

void Compute::State::project_qkv(const model::Batch& batch, const Task& task) {
  const Weights held = weights_of(task);
  const LayerTensors& weights = *held.tensors;
  need_loaded(weights.query, task);
  const Buffer x = operand(task.input, task, transformer.hidden);
  const Buffer q = operand(task.output, task, query.width);
  // The attention buffer's columns of these rows and heads are free until attend writes them: keys
  // (and values, if they belong to several blocks or are not kept in f32) wait there for their
  // places in the cache.
  require(q.data != attention.data && x.data != attention.data && x.data != q.data,
          "queries go to a buffer of their own");
  if (task.columns.empty() || task.rows.empty()) return;
  need_cached(batch, task);

  const std::int64_t d = transformer.head_dim;
  const std::int64_t column = (task.columns.begin - share.heads.begin) * d;
  const Range kv = transformer.kv_heads_for(task.columns);
  const std::int64_t first_head = task.columns.begin - held.heads.begin;  // of the weights
  const std::int64_t first_kv = kv.begin - held.kv_heads.begin;
  const auto rows_of = [&](const MatrixView& w, std::int64_t first, std::int64_t heads, float* y,
                           std::int64_t y_stride) {
    return WeightProduct{
        x.at(task.rows.begin), x.width,   w.row(first * d), w.row_bytes(), w.format, y, y_stride,
        task.rows.size(),      heads * d, w.columns};
  };
  const auto bias_of = [&](std::int64_t head) {
    return weights.qkv_bias.empty() ? nullptr : weights.qkv_bias.data() + head * d;
  };
  const std::int64_t key_row = held.heads.size() + first_kv;
  const std::int64_t value_row = held.heads.size() + held.kv_heads.size() + first_kv;
  const WeightProduct queries = rows_of(weights.query, first_head, task.columns.size(),
                                        q.at(task.rows.begin, column), q.width);
  float* staging = attention.at(task.rows.begin, column);
  const WeightProduct keys_of_rows =
      rows_of(weights.key, first_kv, kv.size(), staging, attention.width);

  std::int64_t blocks = 0;
  TaskSegment only;
  for_segments(batch, task.rows, [&](const TaskSegment& segment) {
    blocks += (segment.past + segment.rows.size() - 1) / model::kCacheBlock -
              segment.past / model::kCacheBlock + 1;
    only = segment;
  });
  const std::span<const std::int32_t> table = cache.table().blocks(only.sequence);
  // Heads whose values go straight home: as f32, and into one block.
  const bool straight = blocks == 1 && transformer.cache == model::CacheFormat::f32;
  const std::int64_t direct = straight ? kv.size() : 0;
  const std::int64_t total = queries.outputs + keys_of_rows.outputs + direct * d;
  pool.parallel_for(total, kOutputGranule, [&](std::int64_t begin, std::int64_t end, int) {
    // The outputs are queries, then keys, then the values of each head.
    std::int64_t offset = 0;
    const auto piece = [&](const WeightProduct& p) {
      const std::int64_t from = std::max(begin - offset, std::int64_t{0});
      const std::int64_t to = std::min(end - offset, p.outputs);
      if (from < to) kernels.product(p.slice(from, to));
      offset += p.outputs;
    };
    piece(queries);
    piece(keys_of_rows);
    for (std::int64_t head = 0; head < direct; ++head) {
      const CachedHead home =
          cache.head(table, task.layer, static_cast<std::int32_t>(kv.begin + head));
      piece(rows_of(weights.value, first_kv + head, 1, home.value<float>(only.past, d), d));
    }
  });
  if (weights.query.in_pairs)
    unpair(queries.tokens, task.columns.size(), d, queries.y, queries.y_stride);
  if (weights.key.in_pairs)
    unpair(keys_of_rows.tokens, kv.size(), d, keys_of_rows.y, keys_of_rows.y_stride);
  store_keys(batch, task, column, kv, bias_of(key_row));
  if (direct == 0) multiply(rows_of(weights.value, first_kv, kv.size(), staging, attention.width));
  store_values(batch, task, column, kv, bias_of(value_row), direct == 0);
  const float* bias = bias_of(first_head);
  const RopeTable* const turns = rope_of(task.layer);
  const auto epsilon = static_cast<float>(transformer.norm_epsilon);
  for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row) {
    if (bias != nullptr) kernels.add(bias, task.columns.size() * d, q.at(row, column));
    for (std::int64_t head = 0; head < task.columns.size(); ++head) {
      float* const mine = q.at(row, column + head * d);
      if (!weights.query_norm.empty())
        kernels.rms_norm(mine, weights.query_norm.data(), d, epsilon, mine);
      if (turns != nullptr)
        kernels.rotate(turns->cosine(row), turns->sine(row), turns->half(), mine);
    }
  }
  grow_queries(batch, task, q, column);
}

// Queries grow with the logarithm of how often the original context has passed.
void Compute::State::grow_queries(const model::Batch& batch, const Task& task, const Buffer& q,
                                  std::int64_t column) const {
  if (transformer.query_growth == 0.0) return;
  const auto context = static_cast<double>(transformer.rope_scaling->original_context);
  for_segments(batch, task.rows, [&](const TaskSegment& segment) {
    for (std::int32_t i = 0; i < segment.rows.size(); ++i) {
      const double passed = std::floor(static_cast<double>(segment.past + i) / context);
      const double growth = 1.0 + transformer.query_growth * std::log(1.0 + passed);
      if (growth != 1.0)
        kernels.scale_by(static_cast<float>(growth), task.columns.size() * transformer.head_dim,
                         q.at(segment.rows.begin + i, column));
    }
  });
}

void Compute::State::store_keys(const model::Batch& batch, const Task& task, std::int64_t column,
                                Range kv_heads, const float* bias) {
  const std::int64_t d = transformer.head_dim;
  RopeTable* const turns = rope_of(task.layer);
  const std::span<const float> weight = layer(task).key_norm;
  const auto epsilon = static_cast<float>(transformer.norm_epsilon);
  for_segments(batch, task.rows, [&](const TaskSegment& segment) {
    const std::span<const std::int32_t> blocks = cache.table().blocks(segment.sequence);
    const bool is_long = std::ranges::binary_search(long_sequences, segment.sequence);
    for (std::int32_t row = segment.rows.begin; row < segment.rows.end; ++row) {
      const std::int32_t position = segment.past + (row - segment.rows.begin);
      if (turns != nullptr) turns->set(row, position, is_long);
      if (bias != nullptr) kernels.add(bias, kv_heads.size() * d, attention.at(row, column));
      for (std::int32_t head = kv_heads.begin; head < kv_heads.end; ++head) {
        float* key = attention.at(row, column + (head - kv_heads.begin) * d);
        if (!weight.empty()) kernels.rms_norm(key, weight.data(), d, epsilon, key);
        if (turns != nullptr)
          kernels.rotate(turns->cosine(row), turns->sine(row), turns->half(), key);
        if (!store_key(key, position, cache.head(blocks, task.layer, head), d))
          refuse_stored(transformer.cache, "key", task.layer, position);
      }
    }
  });
}

void Compute::State::store_values(const model::Batch& batch, const Task& task, std::int64_t column,
                                  Range kv_heads, const float* bias, bool staged) {
  if (!staged && bias == nullptr) return;
  const std::int64_t d = transformer.head_dim;
  for_segments(batch, task.rows, [&](const TaskSegment& segment) {
    const std::span<const std::int32_t> blocks = cache.table().blocks(segment.sequence);
    for (std::int32_t row = segment.rows.begin; row < segment.rows.end; ++row) {
      const std::int32_t position = segment.past + (row - segment.rows.begin);
      for (std::int32_t head = kv_heads.begin; head < kv_heads.end; ++head) {
        const std::int64_t at = (head - kv_heads.begin) * d;
        const CachedHead home = cache.head(blocks, task.layer, head);
        float* const value =
            staged ? attention.at(row, column + at) : home.value<float>(position, d);
        if (bias != nullptr) kernels.add(bias + at, d, value);
        if (staged && !store_value(value, position, home, d))
          refuse_stored(transformer.cache, "value", task.layer, position);
      }
    }
  });
}

bool Compute::State::is_complete(std::int32_t sequence, std::int32_t end, Range keys) const {
  return keys.end < end || (keys.end == end && (end > 1 || cache.table().holds(sequence, keys)));
}

Range Compute::State::keys_of(const TaskSegment& segment, const Task& attend) const {
  const bool open = attend.keys.end == model::kCausal.end;
  if (attend.statistics && !open && !is_complete(segment.sequence, segment.end, attend.keys))
    return {};
  return attend.keys.intersect({0, segment.end});
}

void Compute::State::attend(const model::Batch& batch, const Task& task) {
  (void)layer(task);
  need_heads(task);
  if (reads_gathered(task)) return attend_gathered(task);
  const Buffer q = operand(task.input, task, query.width);
  const Buffer y = operand(task.output, task, attention.width);
  const std::int64_t numbers = std::int64_t{2} * share.heads.size();
  const Buffer softmax =
      task.statistics ? operand({model::BufferKind::softmax, task.output.slot}, task, numbers)
                      : Buffer{};
  require(q.data != y.data, "attention does not work in place");
  require(task.keys.begin >= 0 && task.keys.begin <= task.keys.end, "keys in order");
  if (task.columns.empty() || task.rows.empty()) return;
  need_cached(batch, task);

  const std::int64_t d = transformer.head_dim;
  const auto group = static_cast<std::int32_t>(transformer.group());
  const Range kv = transformer.kv_heads_for(task.columns);
  // Without a causal mask every row is as if it came after all others.
  const bool causal = transformer.architecture().mask == model::Mask::causal;
  // Items of work: segment, key/value head, tile of rows, and, if that is too few for the threads,
  // a share of the head's queries.
  std::int64_t items = 0;
  for_segments(batch, task.rows, [&](const TaskSegment& segment) {
    items += (segment.rows.size() + kAttendRows - 1) / kAttendRows * kv.size();
  });
  const std::int64_t splits = std::min<std::int64_t>(
      group, (pool.threads() + items - 1) / std::max<std::int64_t>(items, 1));
  pool.parallel_for(items * splits, 1, [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t item = 0;
    for_segments(batch, task.rows, [&](const TaskSegment& segment) {
      const BlockCache& home = task.of_remote_kv ? *remote_kv : cache;
      const std::int32_t of_layer = task.of_remote_kv ? 0 : task.layer;
      const std::span<const std::int32_t> blocks =
          home.table().blocks(task.of_remote_kv ? kRemoteKv : segment.sequence);
      for (std::int32_t head = kv.begin; head < kv.end; ++head) {
        const Range mine = task.columns.intersect({head * group, (head + 1) * group});
        for (std::int64_t row = 0; row < segment.rows.size(); row += kAttendRows) {
          for (std::int64_t split = 0; split < splits; ++split, ++item) {
            if (item < begin || item >= end) continue;
            const std::int64_t from = mine.begin + mine.size() * split / splits;
            const std::int64_t to = mine.begin + mine.size() * (split + 1) / splits;
            const std::int64_t column = (from - share.heads.begin) * d;
            const Range keys = keys_of(segment, task);
            kernels.attend({.queries = q.at(segment.rows.begin + row, column),
                            .query_stride = q.width,
                            .cache = home.head(blocks, of_layer, head),
                            .output = y.at(segment.rows.begin + row, column),
                            .output_stride = y.width,
                            .rows = std::min(kAttendRows, segment.rows.size() - row),
                            .group = to - from,
                            .head_dim = d,
                            .first_key = keys.begin,
                            .end_key = keys.end,
                            .past = causal ? segment.past + row : std::int64_t{segment.end},
                            .window = task.window,
                            .scale = static_cast<float>(transformer.attention_scale),
                            .cap = static_cast<float>(transformer.score_cap),
                            .softmax = softmax.data == nullptr
                                           ? nullptr
                                           : softmax.at(segment.rows.begin + row,
                                                        2 * (from - share.heads.begin)),
                            .softmax_stride = softmax.width});
          }
        }
      }
    });
  });
}

void Compute::State::merge(const Task& task) {
  need_heads(task);
  const std::int64_t numbers = std::int64_t{2} * share.heads.size();
  const Buffer x = operand(task.input, task, attention.width);
  const Buffer y = operand(task.output, task, attention.width);
  const Buffer more = operand({model::BufferKind::softmax, task.input.slot}, task, numbers);
  const Buffer all = operand({model::BufferKind::softmax, task.output.slot}, task, numbers);
  require(x.data != y.data, "a merge is of two parts");
  const std::int64_t first = task.columns.begin - share.heads.begin;
  const std::int64_t d = transformer.head_dim;
  if (task.selection > 0) return merge_listed(task, x, more, y, all);
  for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row) {
    kernels.merge({x.at(row, first * d), more.at(row, 2 * first)},
                  {y.at(row, first * d), all.at(row, 2 * first)}, task.columns.size(), d);
  }
}

}  // namespace tandem::exec
