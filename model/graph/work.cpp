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

// A matrix of a product: `out` rows of `in` numbers, `copies` times, each shared by `rows` rows of
// `all`.
struct Factor {
  double in = 0.0;
  double out = 0.0;
  WeightFormat format = WeightFormat::f32;
  double copies = 1.0;
  double rows = 0.0;
};

// Products of different rows and lengths as one task. The first factor has the work's format and
// intensity; others with both join it.
Work product(std::span<const Factor> factors) {
  Work w;
  w.format = factors.front().format;
  w.intensity = std::max(1.0, factors.front().rows);
  for (const Factor& f : factors) {
    if (f.out <= 0.0 || f.copies <= 0.0) continue;
    const double bytes = f.copies * f.out *
                         static_cast<double>(row_bytes(f.format, static_cast<std::int64_t>(f.in)));
    const double all_rows = f.copies * f.rows;
    w.flops += 2.0 * all_rows * f.in * f.out;
    w.streamed_bytes += bytes;
    w.bytes_read += bytes + kE * all_rows * f.in;
    w.bytes_written += kE * all_rows * f.out;
    const double intensity = std::max(1.0, f.rows);
    if (f.format == w.format && intensity == w.intensity) continue;
    auto* const part = std::ranges::find_if(w.others, [&](const Work::Part& one) {
      return one.bytes == 0.0 || (one.format == f.format && one.intensity == intensity);
    });
    require(part != w.others.end(), "work: a product of at most five formats and intensities");
    *part = {f.format, part->bytes + bytes, intensity};
  }
  return w;
}

// Products of latent attention in its absorbed form, of H heads:
//   first: [h, q], [q, H (n + p)] or [h, H (n + p)], [h, R + p], of each head [n, R]
//   second: of each head [R, v], then [H v, h]
// q rank of queries    R rank of keys and values    n, p parts of a head without and with rotation
// v value of a head. An indexer of I heads of i numbers adds [q, I i], [h, i] and [h, I].
Work latent_first(const Transformer& t, const Task& task) {
  const LatentAttention& l = *t.latent;
  const auto d = [](std::int64_t x) { return static_cast<double>(x); };
  const double rows = task.rows.size();
  const double heads = task.columns.size();
  const double h = d(t.hidden);
  const WeightFormat query = t.format_of(WeightMatrix::query, task.layer);
  const WeightFormat key = t.format_of(WeightMatrix::key, task.layer);
  const WeightFormat value = t.format_of(WeightMatrix::value, task.layer);
  const double index = l.indexes(task.layer) ? 1.0 : 0.0;
  const double queries = heads * d(l.plain + l.rotated) + index * d(l.index_heads * l.index_dims);
  const bool ranked = l.query_rank > 0;
  const double keys = d(l.rank + l.rotated) + index * d(l.index_dims + l.index_heads);
  const auto factor = [&](double in, double out, WeightFormat format) {
    return Factor{.in = in, .out = out, .format = format, .rows = rows};
  };
  return product(std::array{factor(h, ranked ? d(l.query_rank) : queries, query),
                            factor(d(l.query_rank), ranked ? queries : 0.0, query),
                            factor(h, keys, key), factor(d(l.rank), heads * d(l.plain), value)});
}

Work latent_second(const Transformer& t, const Task& task) {
  const LatentAttention& l = *t.latent;
  const double rows = task.rows.size();
  const double heads = task.columns.size();
  return product(
      std::array{Factor{.in = static_cast<double>(t.out_columns(task.layer, task.columns).size()),
                        .out = static_cast<double>(t.hidden),
                        .format = t.format_of(WeightMatrix::out, task.layer),
                        .rows = rows},
                 Factor{.in = static_cast<double>(l.rank),
                        .out = heads * static_cast<double>(l.value),
                        .format = t.format_of(WeightMatrix::value, task.layer),
                        .rows = rows}});
}

// Products of a layer with experts. r rows use D = Experts::expected_distinct(r) of the E experts,
// each by r k / D rows on average: flops of k experts a row, and weights of D. All rows use the
// shared expert, and the router, which belongs to the first product.
Work experts_product(const Transformer& t, const Task& task, bool first) {
  const Experts& e = *t.experts;
  const double r = task.rows.size();
  const double h = static_cast<double>(t.hidden);
  const Transformer::FfnColumns own = t.ffn_columns(task.layer, task.columns);
  const double used = e.expected_distinct(r);
  const double each = used > 0.0 ? r * static_cast<double>(e.chosen) / used : 0.0;
  const auto routed = static_cast<double>(own.routed);
  const auto common = static_cast<double>(own.common);
  const auto format = [&](WeightMatrix matrix) { return t.format_of(matrix, task.layer); };
  const auto factor = [&](double in, double out, WeightMatrix matrix, bool of_experts) {
    return Factor{.in = in,
                  .out = out,
                  .format = format(matrix),
                  .copies = of_experts ? used : 1.0,
                  .rows = of_experts ? each : r};
  };
  Work w;
  if (!first) {
    w = product(std::array{factor(routed, h, WeightMatrix::down, true),
                           factor(common, common > 0.0 ? h : 0.0, WeightMatrix::down, false)});
  } else {
    const bool gated = t.architecture().gated;
    const double router =
        static_cast<double>(e.router_parameters(t.hidden)) / static_cast<double>(t.hidden);
    w = product(std::array{factor(h, gated ? routed : 0.0, WeightMatrix::gate, true),
                           factor(h, routed, WeightMatrix::up, true),
                           factor(h, gated ? common : 0.0, WeightMatrix::gate, false),
                           factor(h, common, WeightMatrix::up, false),
                           Factor{.in = h, .out = router, .rows = r}});
    // Gate and up read their inputs once.
    const double inputs = r * static_cast<double>(e.chosen) + (router + common > 0.0 ? r : 0.0);
    w.bytes_read = w.streamed_bytes + kE * h * inputs;
  }
  w.rows = r * static_cast<double>(e.chosen) + (common > 0.0 ? r : 0.0);
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

struct KeyCounts {
  double all = 0.0;    // of all rows
  double means = 0.0;  // of the mean row, summed over segments
};

// Keys that rows see in the cache, at most the last `window` of each; 0: all.
KeyCounts cached_keys(const Batch& batch, const Task& task, std::int64_t window,
                      bool causal = true) {
  KeyCounts counts;
  std::int64_t begin = 0;
  for (const Segment& segment : batch.segments) {
    const std::int64_t first = std::max<std::int64_t>(task.rows.begin - begin, 0);
    const std::int64_t last = std::min<std::int64_t>(task.rows.end - begin, segment.rows);
    begin += segment.rows;
    if (first >= last) continue;
    const Range rows{static_cast<std::int32_t>(first), static_cast<std::int32_t>(last)};
    const double keys = causal ? visible_keys(segment.past, rows, task.keys, window)
                               : static_cast<double>(last - first) * all_keys(segment, task.keys);
    counts.all += keys;
    counts.means += keys / static_cast<double>(last - first);
  }
  return counts;
}

// Latent attention of H heads over n_i rows of the cache, in the absorbed form:
//   flops = 2 H (2 R + p) sum n_i      scores of R + p numbers, and the sum of R
//   streamed = e (R + p) sum over segments of (mean n_i)      all heads share the row
//   intensity = flops e / (2 streamed), as for matrices
// An indexer adds 2 I i flops and i numbers for every key, and n_i is at most the keys it chooses.
// Symbols as in latent_first.
Work latent_attention(const Transformer& t, const Batch& batch, const Task& task) {
  const LatentAttention& l = *t.latent;
  const auto d = [](std::int64_t x) { return static_cast<double>(x); };
  const KeyCounts seen = cached_keys(batch, task, task.window);
  const bool sparse = l.index_heads > 0;
  const KeyCounts used = sparse ? cached_keys(batch, task, l.index_keys) : seen;
  const double heads = task.columns.size();
  const double rows = task.rows.size();
  const double e = cache_number_bytes(t.cache);
  Work w;
  w.format = rated_as(t.cache);
  w.flops = 2.0 * heads * d(2 * l.rank + l.rotated) * used.all;
  w.streamed_bytes = e * d(l.rank + l.rotated) * used.means;
  if (l.indexes(task.layer)) {
    w.flops += 2.0 * d(l.index_heads * l.index_dims) * seen.all;
    w.streamed_bytes += e * d(l.index_dims) * seen.means;
  }
  w.bytes_read = w.streamed_bytes + kE * rows * heads * d(l.rank + l.rotated);
  w.bytes_written = kE * rows * heads * d(l.rank);
  if (w.streamed_bytes > 0.0) w.intensity = w.flops * e / (2.0 * w.streamed_bytes);
  return w;
}

// Attention of H query heads over n_i keys of row i:
//   flops = 4 H d sum n_i            q k^T and the weighted sum of v, 2 d each per head and key
//   streamed = e 2 K d sum over segments of (mean n_i)       K and V of the mean row's context, e
//                                                            bytes a number of the cache's type
//   intensity = sum n_i / sum of means * H / K    (one segment: r H / K)
// A window bounds n_i, not what the cache keeps. Rows r and keys that were gathered are of one
// order, by position: r sees keys up to r.
// so that flops = streamed * intensity * 2 / e, as for matrices. Rows share keys within a segment
// only.
Work attention(const Transformer& t, const Batch& batch, const Task& task) {
  if (t.latent) return latent_attention(t, batch, task);
  const double d = static_cast<double>(t.head_dim);
  const double query_heads = task.columns.size();
  const double kv_heads = t.kv_heads_for(task.columns).size();
  double keys_total = 0.0;
  double keys_streamed = 0.0;
  if (reads_gathered(task) && !task.rows.empty()) {
    keys_total = visible_keys(0, task.rows.begin, task.rows.end, task.keys);
    keys_streamed = keys_total / task.rows.size();
  } else if (!reads_gathered(task)) {
    const KeyCounts cached =
        cached_keys(batch, task, task.window, t.architecture().mask == Mask::causal);
    keys_total = cached.all;
    keys_streamed = cached.means;
  }
  Work w;
  const double rows = task.rows.size();
  w.flops = 4.0 * query_heads * d * keys_total;
  const CacheFormat kept = reads_gathered(task) ? CacheFormat::f32 : t.cache;
  w.format = rated_as(kept);
  w.streamed_bytes = cache_number_bytes(kept) * 2.0 * kv_heads * d * keys_streamed;
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

Work work_of(const Transformer& t, const Batch& batch, const Task& task) {
  const double r = task.rows.size();
  double c = task.columns.size();
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
      if (t.latent) return latent_first(t, task);
      const double kv = d * t.kv_heads_for(task.columns).size();
      return matrices(r, h,
                      std::array{std::pair{c * d, format(WeightMatrix::query)},
                                 std::pair{kv, format(WeightMatrix::key)},
                                 std::pair{kv, format(WeightMatrix::value)}});
    }
    case TaskKind::attend:
      return attention(t, batch, task);
    case TaskKind::project_out:  // [H d, h], and zeros up to whole blocks
      if (t.latent) return latent_second(t, task);
      return matrix(r, t.out_columns(task.layer, task.columns).size(), h,
                    format(WeightMatrix::out));
    case TaskKind::ffn_up:  // [h, C] for gate and for up
      if (t.experts && t.experts->in(task.layer)) return experts_product(t, task, true);
      c = static_cast<double>(t.ffn_columns(task.layer, task.columns).common);
      if (!t.architecture().gated) return matrix(r, h, c, format(WeightMatrix::up));
      return matrices(r, h,
                      std::array{std::pair{c, format(WeightMatrix::gate)},
                                 std::pair{c, format(WeightMatrix::up)}});
    case TaskKind::ffn_down:  // [C, h]
      if (t.experts && t.experts->in(task.layer)) return experts_product(t, task, false);
      c = static_cast<double>(t.ffn_columns(task.layer, task.columns).common);
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
      const double read = cached ? cache_number_bytes(t.cache) : kE;
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
