// One function a task kind: checks the task against the device's share, then runs kernels on it.

#include <algorithm>
#include <limits>
#include <span>
#include <string>

#include "exec/compute_state.hpp"
#include "exec/kernels/attention.hpp"
#include "exec/kernels/rowwise.hpp"
#include "model/error.hpp"

namespace tandem::exec {

namespace {

using model::Range;
using model::Task;
using model::TaskKind;

std::string text(Range r) { return std::to_string(r.begin) + ".." + std::to_string(r.end); }

// Rows of a prompt that one thread attends for at a time.
constexpr std::int64_t kAttendRows = 32;
// A row's elementwise work is too short to hand to another thread below this many values.
constexpr std::int64_t kElementwiseFloats = std::int64_t{16} * 1024;

// Where every row's part from `column` on begins, which whole blocks precede.
const std::byte* part_of_row(const MatrixView& w, std::int64_t column) {
  require(column % model::block_of(w.format).elements == 0, "a part of a row is whole blocks");
  return w.data + model::row_bytes(w.format, column);
}

std::int64_t row_granule(std::int64_t width) {
  return std::max<std::int64_t>(1, kElementwiseFloats / std::max<std::int64_t>(width, 1));
}

}  // namespace

void lacks(const std::string& what) {
  throw Error("shard: lacks " + what +
              " that a task needs; plan and shard are of different runs, "
              "make both again");
}

void Compute::State::execute(const model::Batch& batch, const Task& task) {
  require(task.lane == model::LaneKind::cpu, "compute executes tasks of the cpu lane");
  check_batch(batch, task);
  switch (task.kind) {
    case TaskKind::embed:
      return embed(batch, task);
    case TaskKind::fetch:
      return fetch(batch, task);
    case TaskKind::norm:
      return norm(task);
    case TaskKind::project_qkv:
      return project_qkv(batch, task);
    case TaskKind::attend:
      return attend(batch, task);
    case TaskKind::project_out:
      return project_out(task);
    case TaskKind::ffn_up:
      return ffn_up(task);
    case TaskKind::ffn_down:
      return ffn_down(task);
    case TaskKind::add:
      return add_rows(task);
    case TaskKind::lm_head:
      return lm_head(batch, task);
    case TaskKind::sample:
    case TaskKind::load:
    case TaskKind::release:
    case TaskKind::transfer:
    case TaskKind::capture:
    case TaskKind::deliver:
      break;
  }
  throw std::logic_error("compute does not execute " + std::string(model::to_string(task.kind)));
}

void Compute::State::check_batch(const model::Batch& batch, const Task& task) const {
  std::int64_t rows = 0;
  for (const model::Segment& s : batch.segments) {
    require(s.past >= 0 && s.rows >= 0 &&
                std::int64_t{s.past} + s.rows <= std::numeric_limits<std::int32_t>::max(),
            "positions that there are");
    rows += s.rows;
  }
  require(rows <= limits.max_rows, "rows within the limits");
  require(0 <= task.rows.begin && task.rows.begin <= task.rows.end && task.rows.end <= rows,
          "a task's rows within the batch");
  require(task.columns.begin >= 0 && task.columns.begin <= task.columns.end,
          "a task's columns in order");
}

Compute::State::Buffer Compute::State::operand(model::BufferRef ref, const Task& task,
                                               std::int64_t width) const {
  const Buffer b = buffer(ref);
  require(b.width == width && task.rows.end <= b.rows, "an operand of the task's size");
  return b;
}

const LayerTensors& Compute::State::layer(const Task& task) const {
  if (!share.layers.contains(task.layer)) lacks("layer " + std::to_string(task.layer));
  return shard.tensors().layers[static_cast<std::size_t>(task.layer - share.layers.begin)];
}

void Compute::State::need_heads(const Task& task) const {
  if (!share.heads.contains(task.columns)) lacks("heads " + text(task.columns));
}

void Compute::State::need_loaded(const MatrixView& weights, const Task& task) {
  if (weights.data == nullptr && !task.columns.empty())
    lacks("weights of layer " + std::to_string(task.layer));
}

void Compute::State::need_cached(const model::Batch& batch, const Task& task) const {
  for_segments(batch, task.rows, [&](const TaskSegment& segment) {
    const bool writes = task.kind == TaskKind::project_qkv || task.kind == TaskKind::transfer;
    const Range positions = writes ? Range{segment.past, segment.past + segment.rows.size()}
                                   : task.keys.intersect({0, segment.end});
    if (!cache.table().holds(segment.sequence, positions)) {
      throw std::logic_error("sequence " + std::to_string(segment.sequence) +
                             ": the cache lacks some of positions " + text(positions) +
                             "; begin the step first");
    }
  });
}

void Compute::State::need_columns(const Task& task) const {
  if (!share.columns.contains(task.columns)) lacks("FFN columns " + text(task.columns));
}

void Compute::State::multiply(const WeightProduct& p) {
  pool.parallel_for(p.outputs, kOutputGranule, [&p](std::int64_t begin, std::int64_t end, int) {
    product(p.slice(begin, end));
  });
}

void Compute::State::norm(const Task& task) {
  NormView vectors;
  switch (task.block) {
    case model::WeightBlock::attention:
      vectors = layer(task).attention_norm;
      break;
    case model::WeightBlock::ffn:
      vectors = layer(task).ffn_norm;
      break;
    case model::WeightBlock::head:
      vectors = shard.tensors().final_norm;
      break;
    case model::WeightBlock::none:
    case model::WeightBlock::embedding:
      throw std::logic_error("a norm names the block it precedes");
  }
  if (vectors.weight.empty()) lacks("a norm");
  const Buffer x = operand(task.input, task, transformer.hidden);
  const Buffer y = operand(task.output, task, transformer.hidden);
  const auto epsilon = static_cast<float>(transformer.norm_epsilon);
  const model::Norm kind = transformer.architecture().norm;
  pool.parallel_for(
      task.rows.size(), row_granule(x.width), [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = task.rows.begin + begin; row < task.rows.begin + end; ++row) {
          switch (kind) {
            case model::Norm::rms:
              rms_norm(x.at(row), vectors.weight.data(), x.width, epsilon, y.at(row));
              break;
            case model::Norm::layer:
              layer_norm(x.at(row), vectors.weight.data(), vectors.bias.data(), x.width, epsilon,
                         y.at(row));
              break;
          }
        }
      });
}

void Compute::State::add_bias(const Task& task, std::span<const float> bias, const Buffer& y) {
  if (bias.empty() || task.columns.empty() || task.columns.begin != 0) return;
  for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row)
    exec::add(bias.data(), y.width, y.at(row));
}

void Compute::State::project_qkv(const model::Batch& batch, const Task& task) {
  const LayerTensors& weights = layer(task);
  need_heads(task);
  need_loaded(weights.query, task);
  const Buffer x = operand(task.input, task, transformer.hidden);
  const Buffer q = operand(task.output, task, query.width);
  // The attention buffer's columns of these rows and heads are free until attend writes them: keys
  // (and values, if they belong to several blocks) wait there for their places in the cache.
  require(q.data != attention.data && x.data != attention.data && x.data != q.data,
          "queries go to a buffer of their own");
  if (task.columns.empty() || task.rows.empty()) return;
  need_cached(batch, task);

  const std::int64_t d = transformer.head_dim;
  const std::int64_t column = (task.columns.begin - share.heads.begin) * d;
  const Range kv = transformer.kv_heads_for(task.columns);
  const std::int64_t first_kv = kv.begin - kv_share.begin;
  const auto rows_of = [&](const MatrixView& w, std::int64_t first_head, std::int64_t heads,
                           float* y, std::int64_t y_stride) {
    return WeightProduct{x.at(task.rows.begin),
                         x.width,
                         w.row(first_head * d),
                         w.row_bytes(),
                         w.format,
                         y,
                         y_stride,
                         task.rows.size(),
                         heads * d,
                         w.columns};
  };
  const auto bias_of = [&](std::int64_t head) {
    return weights.qkv_bias.empty() ? nullptr : weights.qkv_bias.data() + head * d;
  };
  const std::int64_t key_row = share.heads.size() + first_kv;
  const std::int64_t value_row = share.heads.size() + kv_share.size() + first_kv;
  const WeightProduct queries = rows_of(weights.query, column / d, task.columns.size(),
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
  const std::int64_t direct = blocks == 1 ? kv.size() : 0;  // heads whose values go straight home
  const std::int64_t total = queries.outputs + keys_of_rows.outputs + direct * d;
  pool.parallel_for(total, kOutputGranule, [&](std::int64_t begin, std::int64_t end, int) {
    // The outputs are queries, then keys, then the values of each head.
    std::int64_t offset = 0;
    const auto piece = [&](const WeightProduct& p) {
      const std::int64_t from = std::max(begin - offset, std::int64_t{0});
      const std::int64_t to = std::min(end - offset, p.outputs);
      if (from < to) product(p.slice(from, to));
      offset += p.outputs;
    };
    piece(queries);
    piece(keys_of_rows);
    for (std::int64_t head = 0; head < direct; ++head) {
      const CachedHead home =
          cache.head(table, task.layer, static_cast<std::int32_t>(kv.begin + head));
      piece(rows_of(weights.value, first_kv + head, 1, home.value(only.past, d), d));
    }
  });
  store_keys(batch, task, column, kv, bias_of(key_row));
  if (direct == 0) multiply(rows_of(weights.value, first_kv, kv.size(), staging, attention.width));
  store_values(batch, task, column, kv, bias_of(value_row), direct == 0);
  const float* bias = bias_of(column / d);
  for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row) {
    if (bias != nullptr) exec::add(bias, task.columns.size() * d, q.at(row, column));
    if (!rope) continue;
    for (std::int64_t head = 0; head < task.columns.size(); ++head) {
      rotate(rope->cosine(row), rope->sine(row), rope->half(), q.at(row, column + head * d));
    }
  }
}

void Compute::State::store_keys(const model::Batch& batch, const Task& task, std::int64_t column,
                                Range kv_heads, const float* bias) {
  const std::int64_t d = transformer.head_dim;
  for_segments(batch, task.rows, [&](const TaskSegment& segment) {
    const std::span<const std::int32_t> blocks = cache.table().blocks(segment.sequence);
    for (std::int32_t row = segment.rows.begin; row < segment.rows.end; ++row) {
      const std::int32_t position = segment.past + (row - segment.rows.begin);
      if (rope) rope->set(row, position);
      if (bias != nullptr) exec::add(bias, kv_heads.size() * d, attention.at(row, column));
      for (std::int32_t head = kv_heads.begin; head < kv_heads.end; ++head) {
        float* key = attention.at(row, column + (head - kv_heads.begin) * d);
        if (rope) rotate(rope->cosine(row), rope->sine(row), rope->half(), key);
        store_key(key, position, cache.head(blocks, task.layer, head), d);
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
        float* home = cache.head(blocks, task.layer, head).value(position, d);
        if (staged) std::copy_n(attention.at(row, column + at), d, home);
        if (bias != nullptr) exec::add(bias + at, d, home);
      }
    }
  });
}

void Compute::State::attend(const model::Batch& batch, const Task& task) {
  (void)layer(task);
  need_heads(task);
  const Buffer q = operand(task.input, task, query.width);
  const Buffer y = operand(task.output, task, attention.width);
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
      const std::span<const std::int32_t> blocks = cache.table().blocks(segment.sequence);
      for (std::int32_t head = kv.begin; head < kv.end; ++head) {
        const Range mine = task.columns.intersect({head * group, (head + 1) * group});
        for (std::int64_t row = 0; row < segment.rows.size(); row += kAttendRows) {
          for (std::int64_t split = 0; split < splits; ++split, ++item) {
            if (item < begin || item >= end) continue;
            const std::int64_t from = mine.begin + mine.size() * split / splits;
            const std::int64_t to = mine.begin + mine.size() * (split + 1) / splits;
            const std::int64_t column = (from - share.heads.begin) * d;
            exec::attend({.queries = q.at(segment.rows.begin + row, column),
                          .query_stride = q.width,
                          .cache = cache.head(blocks, task.layer, head),
                          .output = y.at(segment.rows.begin + row, column),
                          .output_stride = y.width,
                          .rows = std::min(kAttendRows, segment.rows.size() - row),
                          .group = to - from,
                          .head_dim = d,
                          .first_key = task.keys.begin,
                          .end_key = std::min(task.keys.end, segment.end),
                          .past = causal ? segment.past + row : std::int64_t{segment.end}});
          }
        }
      }
    });
  });
}

void Compute::State::project_out(const Task& task) {
  const MatrixView& w = layer(task).out;
  need_heads(task);
  need_loaded(w, task);
  const std::int64_t d = transformer.head_dim;
  const std::int64_t column = (task.columns.begin - share.heads.begin) * d;
  const Buffer x = operand(task.input, task, attention.width);
  const Buffer y = operand(task.output, task, transformer.hidden);
  require(x.data != y.data, "a product does not work in place");
  multiply({x.at(task.rows.begin, column), x.width, part_of_row(w, column), w.row_bytes(), w.format,
            y.at(task.rows.begin), y.width, task.rows.size(), transformer.hidden,
            task.columns.size() * d});
  add_bias(task, layer(task).out_bias, y);
}

void Compute::State::ffn_up(const Task& task) {
  const LayerTensors& weights = layer(task);
  need_columns(task);
  need_loaded(weights.up, task);
  const std::int64_t column = task.columns.begin - share.columns.begin;
  const Buffer x = operand(task.input, task, transformer.hidden);
  const Buffer y = operand(task.output, task, activation.width);
  require(x.data != y.data, "a product does not work in place");
  const auto rows_of = [&](const MatrixView& w, const Buffer& to) {
    return WeightProduct{
        x.at(task.rows.begin),          x.width,  w.row(column),    w.row_bytes(),       w.format,
        to.at(task.rows.begin, column), to.width, task.rows.size(), task.columns.size(), w.columns};
  };
  const std::span<const float> bias = layer(task).up_bias;
  if (!transformer.architecture().gated) {
    const WeightProduct all = rows_of(weights.up, y);
    pool.parallel_for(all.outputs, kOutputGranule, [&](std::int64_t begin, std::int64_t end, int) {
      const WeightProduct mine = all.slice(begin, end);
      product(mine);
      for (std::int64_t row = 0; row < mine.tokens; ++row) {
        activate(transformer.activation, bias.empty() ? nullptr : bias.data() + column + begin,
                 mine.outputs, mine.y + row * mine.y_stride);
      }
    });
    return;
  }
  const WeightProduct gate = rows_of(weights.gate, y);
  const WeightProduct ups = rows_of(weights.up, gated);
  pool.parallel_for(gate.outputs, kOutputGranule, [&](std::int64_t begin, std::int64_t end, int) {
    const WeightProduct mine = gate.slice(begin, end);
    const WeightProduct up = ups.slice(begin, end);
    if (mine.tokens <= kGatedRows && mine.format == up.format) return gated_product(mine, up.w);
    product(mine);
    product(up);
    for (std::int64_t row = 0; row < mine.tokens; ++row) {
      gate_with(up.y + row * up.y_stride, mine.outputs, mine.y + row * mine.y_stride);
    }
  });
}

void Compute::State::ffn_down(const Task& task) {
  const MatrixView& w = layer(task).down;
  need_columns(task);
  need_loaded(w, task);
  const std::int64_t column = task.columns.begin - share.columns.begin;
  const Buffer x = operand(task.input, task, activation.width);
  const Buffer y = operand(task.output, task, transformer.hidden);
  require(x.data != y.data, "a product does not work in place");
  multiply({x.at(task.rows.begin, column), x.width, part_of_row(w, column), w.row_bytes(), w.format,
            y.at(task.rows.begin), y.width, task.rows.size(), transformer.hidden,
            task.columns.size()});
  add_bias(task, layer(task).down_bias, y);
}

void Compute::State::add_rows(const Task& task) {
  const Buffer x = buffer(task.input);
  const Buffer y = buffer(task.output);
  require(
      task.columns.end <= std::min(x.width, y.width) && task.rows.end <= std::min(x.rows, y.rows),
      "an operand of the task's size");
  pool.parallel_for(
      task.rows.size(), row_granule(task.columns.size()),
      [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = task.rows.begin + begin; row < task.rows.begin + end; ++row) {
          add(x.at(row, task.columns.begin), task.columns.size(), y.at(row, task.columns.begin));
        }
      });
}

}  // namespace tandem::exec
