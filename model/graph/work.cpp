#include "model/graph/work.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::model {

// Symbols: r rows of the task, h hidden size, d head dimension, H query heads and K key/value heads
// of the task, C FFN columns, V vocabulary rows, c columns; e = 4 bytes an element, or
// what the format of a matrix has. A matrix [a, b] applied to r rows is 2 r a b flops and streams
// e a b bytes, each reused by r rows.
// Softmax, RoPE, activations, biases and the norms, scales and caps of heads, scores and logits are
// ignored: at most a percent of the matrices they follow.
namespace {

constexpr double kE = kElementBytes;

// x[r, in] times a matrix [in, out], which is stored as `out` rows.
Work matrix(double rows, double in, double out, WeightFormat format) {
  Work w;
  w.format = format;
  const auto row = static_cast<double>(row_bytes(format, static_cast<std::int64_t>(in)));
  const double weights = row * out;
  w.flops = 2.0 * rows * in * out;
  w.bytes_read = weights + kE * rows * in;
  w.bytes_written = kE * rows * out;
  w.streamed_bytes = weights;
  w.intensity = std::max(1.0, rows);
  return w;
}

// x[r, in] times separate matrices: sums of the same, but inputs are read once.
Work matrices(double rows, double in, std::span<const std::pair<double, WeightFormat>> outs) {
  double all = 0.0;
  bool uniform = true;
  for (const auto& [out, format] : outs) {
    all += out;
    uniform = uniform && format == outs.front().second;
  }
  Work w = matrix(rows, in, all, outs.front().second);
  if (uniform) return w;
  double weights = 0.0;
  for (const auto& [out, format] : outs) {
    const double bytes =
        out * static_cast<double>(row_bytes(format, static_cast<std::int64_t>(in)));
    weights += bytes;
    if (format == w.format) continue;
    Work::Part& part =
        w.others[0].bytes == 0.0 || w.others[0].format == format ? w.others[0] : w.others[1];
    part.format = format;
    part.bytes += bytes;
  }
  w.bytes_read += weights - w.streamed_bytes;
  w.streamed_bytes = weights;
  return w;
}

// Work that streams activations once.
Work elementwise(double flops, double bytes_read, double bytes_written) {
  Work w;
  w.flops = flops;
  w.bytes_read = bytes_read;
  w.bytes_written = bytes_written;
  w.streamed_bytes = bytes_read + bytes_written;
  return w;
}

// r rows of the vocabulary and of the f32 tables.
Work embedded(const Transformer& t, double rows) {
  const double written = kE * rows * static_cast<double>(t.hidden);
  const double beside = written * static_cast<double>(t.embedded_rows() - 1);
  Work w = elementwise(0.0, rows * static_cast<double>(t.embedding_row_bytes()) + beside, written);
  w.format = t.format_of(WeightMatrix::embedding, -1);
  return w;
}

// Sum over rows i in [first, last) of a segment of |[0, past + i + 1) n keys|, in closed form: the
// count grows by one a row between the rows where it leaves 0 and where it reaches |keys|.
double visible_keys(std::int64_t past, std::int64_t first, std::int64_t last, Range keys) {
  // n(p) = clamp(p, begin, end) - begin with p = past + i + 1 in (low, high].
  const std::int64_t low = past + first;
  const std::int64_t high = past + last;
  const std::int64_t begin = keys.begin;
  const std::int64_t end = keys.end;
  const std::int64_t ramp_low = std::clamp(low, begin, end);
  const std::int64_t ramp_high = std::clamp(high, begin, end);
  const auto triangle = [](std::int64_t n) {
    return 0.5 * static_cast<double>(n) * static_cast<double>(n + 1);
  };
  const std::int64_t full_rows = high - std::max(low, std::min(high, end));
  return triangle(ramp_high - begin) - triangle(ramp_low - begin) +
         static_cast<double>(full_rows) * static_cast<double>(end - begin);
}

// Of these, the keys in the last `window` positions up to each row's own: 0, all of them.
double visible_keys(std::int64_t past, Range rows, Range keys, std::int64_t window) {
  const double before = visible_keys(past, rows.begin, rows.end, keys);
  if (window == 0) return before;
  return before - visible_keys(past - window, rows.begin, rows.end, keys);
}

// Keys of a segment that each of its rows sees without a causal mask.
double all_keys(const Segment& segment, Range keys) {
  return keys.intersect({0, segment.past + segment.rows}).size();
}

// Attention of H query heads over n_i keys of row i:
//   flops = 4 H d sum n_i            q k^T and the weighted sum of v, 2 d each per head and key
//   streamed = e 2 K d sum over segments of (mean n_i)       K and V of the mean row's context, e
//                                                            bytes of the cache's type
//   intensity = sum n_i / sum of means * H / K    (one segment: r H / K)
// A window bounds n_i, not what the cache keeps. Rows r and keys that were gathered are of one
// order, by position: r sees keys up to r.
// so that flops = streamed * intensity * 2 / e, as for matrices. Rows share keys within a segment
// only.
Work attention(const Transformer& t, const Batch& batch, const Task& task) {
  const double d = static_cast<double>(t.head_dim);
  const double query_heads = task.columns.size();
  const double kv_heads = t.kv_heads_for(task.columns).size();
  double keys_total = 0.0;
  double keys_streamed = 0.0;
  std::int64_t segment_begin = 0;
  if (reads_gathered(task) && !task.rows.empty()) {
    keys_total = visible_keys(0, task.rows.begin, task.rows.end, task.keys);
    keys_streamed = keys_total / task.rows.size();
  }
  for (const Segment& segment : batch.segments) {
    if (reads_gathered(task)) break;
    const std::int64_t first = std::max<std::int64_t>(task.rows.begin - segment_begin, 0);
    const std::int64_t last =
        std::min<std::int64_t>(task.rows.end - segment_begin, std::int64_t{segment.rows});
    segment_begin += segment.rows;
    if (first >= last) continue;
    const double keys =
        t.architecture().mask == Mask::causal
            ? visible_keys(segment.past,
                           {static_cast<std::int32_t>(first), static_cast<std::int32_t>(last)},
                           task.keys, task.window)
            : static_cast<double>(last - first) * all_keys(segment, task.keys);
    keys_total += keys;
    keys_streamed += keys / static_cast<double>(last - first);
  }
  Work w;
  const double rows = task.rows.size();
  w.flops = 4.0 * query_heads * d * keys_total;
  const CacheFormat kept = reads_gathered(task) ? CacheFormat::f32 : t.cache;
  w.format = rated_as(kept);
  w.streamed_bytes =
      static_cast<double>(cache_element_bytes(kept)) * 2.0 * kv_heads * d * keys_streamed;
  w.bytes_read = w.streamed_bytes + kE * rows * query_heads * d;
  w.bytes_written = kE * rows * query_heads * d;
  if (task.statistics) w.bytes_written += kE * 2.0 * rows * query_heads;
  if (keys_streamed > 0.0 && kv_heads > 0.0) {
    w.intensity = keys_total / keys_streamed * query_heads / kv_heads;
  }
  return w;
}

// Scores of keys: q k^T once more, without values, and a sum for each key and key/value head.
Work scored(const Transformer& t, const Batch& batch, const Task& task) {
  Work w = attention(t, batch, task);
  w.flops /= 2.0;
  w.streamed_bytes /= 2.0;
  w.bytes_read -= w.streamed_bytes;
  const double heads = task.columns.size();
  w.bytes_read += kE * 2.0 * static_cast<double>(task.rows.size()) * heads;
  w.bytes_written =
      kE * static_cast<double>(task.keys.size()) * t.kv_heads_for(task.columns).size();
  return w;
}

// So many elements of a row of `buffer`.
double gathered_elements(const Transformer& t, const Task& task) {
  const double d = static_cast<double>(t.head_dim);
  if (task.input.kind == BufferKind::key_value)
    return 2.0 * d * t.kv_heads_for(task.columns).size();
  return (task.input.kind == BufferKind::softmax ? 2.0 : d) * task.columns.size();
}

// Returns the bytes of a load. `columns` are heads (attention), FFN columns (ffn) or rows of the
// vocabulary (embedding, head; the final norm stays in memory).
double block_bytes(const Transformer& t, const Task& load) {
  const Range columns = load.columns;
  switch (load.block) {
    case WeightBlock::none:
      return 0.0;
    case WeightBlock::attention:
      return static_cast<double>(t.attention_bytes(load.layer, columns));
    case WeightBlock::ffn:
      return static_cast<double>(t.ffn_bytes(load.layer, columns));
    case WeightBlock::embedding:
      return static_cast<double>(columns.size() * t.embedding_row_bytes());
    case WeightBlock::head:
      return static_cast<double>(columns.size() * t.head_row_bytes());
  }
  throw std::logic_error("weight block out of range");
}

}  // namespace

WeightFormat rated_as(CacheFormat cache) {
  switch (cache) {
    case CacheFormat::f32:
      return WeightFormat::f32;
    case CacheFormat::f16:
      return WeightFormat::f16;
  }
  throw std::logic_error("cache format out of range");
}

Work work_of(const Transformer& t, const Batch& batch, const Task& task) {
  const double r = task.rows.size();
  const double c = task.columns.size();
  const double h = static_cast<double>(t.hidden);
  const double d = static_cast<double>(t.head_dim);
  const double vocab = static_cast<double>(t.vocab);
  const auto format = [&](WeightMatrix matrix) { return t.format_of(matrix, task.layer); };
  switch (task.kind) {
    case TaskKind::embed:  // copies r rows of the embedding, or sums up those of its tables
      return embedded(t, r);
    case TaskKind::fetch: {  // and reads those of the vocabulary from the disk before
      Work w = embedded(t, r);
      w.bytes_disk = r * static_cast<double>(t.embedding_row_bytes());
      return w;
    }
    case TaskKind::norm:  // square, sum, scale by the norm, scale by the weight: 4 flops an element
      return elementwise(4.0 * r * h,
                         kE * (r * h + static_cast<double>(t.architecture().norm_vectors()) * h),
                         kE * r * h);
    case TaskKind::project_qkv: {  // [h, (H + 2 K) d]
      const double kv = d * t.kv_heads_for(task.columns).size();
      return matrices(r, h,
                      std::array{std::pair{c * d, format(WeightMatrix::query)},
                                 std::pair{kv, format(WeightMatrix::key)},
                                 std::pair{kv, format(WeightMatrix::value)}});
    }
    case TaskKind::attend:
      return attention(t, batch, task);
    case TaskKind::project_out:  // [H d, h], and zeros up to whole blocks
      return matrix(r, t.out_columns(task.layer, task.columns).size(), h,
                    format(WeightMatrix::out));
    case TaskKind::ffn_up:  // [h, C] for gate and for up
      if (!t.architecture().gated) return matrix(r, h, c, format(WeightMatrix::up));
      return matrices(r, h,
                      std::array{std::pair{c, format(WeightMatrix::gate)},
                                 std::pair{c, format(WeightMatrix::up)}});
    case TaskKind::ffn_down:  // [C, h]
      return matrix(r, c, h, format(WeightMatrix::down));
    case TaskKind::add:  // y += x
      return elementwise(r * c, 2.0 * kE * r * c, kE * r * c);
    case TaskKind::merge:  // two products and a sum an element, c heads of two parts and their
                           // softmax
      return elementwise(3.0 * r * c * d, 2.0 * kE * r * c * (d + 2.0), kE * r * c * (d + 2.0));
    case TaskKind::select: {  // a look at each row, and those kept
      const double heads = t.kv_heads_for(task.columns).size();
      return elementwise(r * heads, kE * r * heads, kE * heads * task.keys.size());
    }
    case TaskKind::gather: {  // copies, of a cache from its type
      const double elements = r * gathered_elements(t, task);
      const bool cached = task.input.kind == BufferKind::key_value;
      const double read = cached ? static_cast<double>(cache_element_bytes(t.cache)) : kE;
      return elementwise(0.0, read * elements, kE * elements);
    }
    case TaskKind::score:
      return scored(t, batch, task);
    case TaskKind::lm_head:  // [h, V]
      return matrix(r, h, c, format(WeightMatrix::head));
    case TaskKind::sample: {  // one pass over the logits or candidates, one id a row
      const double scores = task.input.kind == BufferKind::candidates ? c : vocab;
      return elementwise(r * scores, kE * r * scores, kE * r);
    }
    case TaskKind::shortlist:  // one pass over c logits a row
      return elementwise(r * c, kE * r * c, kE * r * static_cast<double>(task.chosen.size()));
    case TaskKind::load: {
      Work w;
      w.bytes_disk = block_bytes(t, task);
      w.bytes_written = w.bytes_disk;
      return w;
    }
    case TaskKind::release:
      return {};
    case TaskKind::transfer: {
      Work w;
      w.bytes_wire = static_cast<double>(payload_bytes(task));
      w.bytes_read = w.bytes_wire;
      w.bytes_written = w.bytes_wire;
      w.streamed_bytes = w.bytes_wire;
      return w;
    }
    case TaskKind::capture:
    case TaskKind::deliver:
      throw std::logic_error("work_of: not a task of a graph");
  }
  throw std::logic_error("task kind out of range");
}

CopySize plain_copy(Bytes payload) {
  return {.payload = payload, .read = payload, .written = payload};
}

CopySize copy_size(TaskKind copy, const Task& transfer) {
  const bool captures = copy == TaskKind::capture;
  require(captures || copy == TaskKind::deliver, "copy_size: neither a capture nor a delivery");
  const Bytes payload{static_cast<double>(payload_bytes(transfer))};
  if (moves_weights(transfer)) return {.payload = payload, .read = Bytes{}, .written = Bytes{}};
  if (transfer.wire == WireFormat::f32) return plain_copy(payload);
  const Bytes numbers{kE * static_cast<double>(sent_rows(transfer)) *
                      static_cast<double>(transfer.columns.size())};
  if (!captures) return {.payload = payload, .read = payload, .written = numbers};
  return {.payload = payload, .read = numbers, .written = payload + numbers};
}

Work copy_work(const CopySize& size) {
  return elementwise(0.0, size.read.value(), size.written.value());
}

double span_bytes(const Task& task, const Work& work) {
  switch (task.lane) {
    case LaneKind::cpu:
      return task.kind == TaskKind::fetch ? work.bytes_disk : work.streamed_bytes;
    case LaneKind::disk:
      return work.bytes_disk;
    case LaneKind::channel:
      return work.bytes_wire;
  }
  throw std::logic_error("lane out of range");
}

}  // namespace tandem::model
