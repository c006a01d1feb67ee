// Attention of the query heads that share one key/value head, over the keys of its cache.

#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/kernels/cached_row.hpp"
#include "exec/kernels/reference/eigen_kernels.hpp"

namespace tandem::exec::reference {
namespace {

// Keys and values of positions [begin, end): [end - begin, head_dim] each.
struct CachedRows {
  CachedRows(const Attention& a, std::int64_t from, std::int64_t to)
      : begin(from), end(to), keys(to - from, a.head_dim), values(to - from, a.head_dim) {
    for (std::int64_t p = begin; p < end; ++p) {
      load_key(a.cache, p, a.head_dim, keys.row(p - begin).data());
      load_value(a.cache, p, a.head_dim, values.row(p - begin).data());
    }
  }
  std::int64_t begin;
  std::int64_t end;
  Matrix keys;
  Matrix values;
};

// Calls body(rows) for the keys that any row of `a` sees, kBlockGranule of them at a time, which
// bounds the memory. Counted from a.first_key, so that a row's sums do not depend on other rows.
template <class Body>
void for_keys(const Attention& a, const Body& body) {
  const std::int64_t end = std::min(a.end_key, a.past + a.rows);  // the last row sees the most
  const std::int64_t first = a.window > 0 ? a.past + 1 - a.window : 0;  // of the first row
  const std::int64_t unseen = std::max(first - a.first_key, std::int64_t{0});
  for (std::int64_t begin = a.first_key + unseen / kBlockGranule * kBlockGranule; begin < end;
       begin += kBlockGranule)
    body(CachedRows(a, begin, std::min(begin + kBlockGranule, end)));
}

// Those of the cached rows [begin, end) that query row `row` sees: keys from a.first_key on, below
// a.end_key, at its own position or before, and within its window.
struct Seen {
  Seen(const Attention& a, const CachedRows& cached, std::int64_t row) {
    const std::int64_t own = a.past + row + 1;
    const std::int64_t first = a.window > 0 ? own - a.window : 0;
    begin = std::max(first, cached.begin) - cached.begin;
    count = std::min({own, a.end_key, cached.end}) - cached.begin - begin;
  }
  std::int64_t begin = 0;  // counted from cached.begin
  std::int64_t count = 0;  // none if it is not positive
};

// scores = K q * scale, then cap tanh(scores / cap) if there is a cap
//   K: [keys, head_dim]    q: [head_dim]    scores: [keys]
Eigen::ArrayXf scores_of(const Attention& a, const Eigen::Ref<const Matrix>& keys,
                         const ConstRow& query) {
  const float scale = a.scale > 0.0F ? a.scale : 1.0F / std::sqrt(static_cast<float>(a.head_dim));
  Eigen::ArrayXf scores = (keys * query.transpose()).array() * scale;
  if (a.cap > 0.0F) scores = a.cap * (scores / a.cap).tanh();
  return scores;
}

ConstRow query_at(const Attention& a, std::int64_t row, std::int64_t head) {
  return {a.queries + row * a.query_stride + head * a.head_dim, a.head_dim};
}

}  // namespace

// y = softmax(cap(K q * scale)) V, of each row and head
//   q, y: [head_dim]    K, V: the [keys, head_dim] that the row sees
// Softmax is taken of some keys at a time, m = max(scores), s = sum of exp(scores - m), and each
// part is merged into those before it.
void attend(const Attention& a) {
  Matrix softmax(a.rows * a.group, 2);  // m and s of all keys so far
  softmax.col(0).setConstant(-std::numeric_limits<float>::infinity());
  softmax.col(1).setZero();
  for (std::int64_t row = 0; row < a.rows; ++row)
    Eigen::Map<Vector>(a.output + row * a.output_stride, a.group * a.head_dim).setZero();
  Vector mixed(a.head_dim);
  for_keys(a, [&](const CachedRows& cached) {
    for (std::int64_t row = 0; row < a.rows; ++row) {
      const Seen seen(a, cached, row);
      if (seen.count <= 0) continue;
      for (std::int64_t head = 0; head < a.group; ++head) {
        const Eigen::ArrayXf scores =
            scores_of(a, cached.keys.middleRows(seen.begin, seen.count), query_at(a, row, head));
        const float most = scores.maxCoeff();
        const Eigen::ArrayXf weights = (scores - most).exp();
        Eigen::Array2f part(most, weights.sum());
        mixed.noalias() = (weights / part[1]).matrix().transpose() *
                          cached.values.middleRows(seen.begin, seen.count);
        merge({mixed.data(), part.data()},
              {a.output + row * a.output_stride + head * a.head_dim,
               softmax.row(row * a.group + head).data()},
              1, a.head_dim);
      }
    }
  });
  if (a.softmax == nullptr) return;
  for (std::int64_t row = 0; row < a.rows; ++row)
    Rows(a.softmax + row * a.softmax_stride, a.group, 2, Eigen::OuterStride<>(2)) =
        softmax.middleRows(row * a.group, a.group);
}

// sums[k] += sum over rows and heads of exp(scores[k] - m) / s, of the keys k that the row sees
//   m, s: a.softmax, [rows, group, 2], of whatever keys; s = 0 counts for nothing
//   sums: [end_key - first_key], `stride` apart
void weigh_keys(const Attention& a, float* sums, std::int64_t stride) {
  for_keys(a, [&](const CachedRows& cached) {
    for (std::int64_t row = 0; row < a.rows; ++row) {
      const Seen seen(a, cached, row);
      if (seen.count <= 0) continue;
      Eigen::Map<Eigen::ArrayXf, Eigen::Unaligned, Eigen::InnerStride<>> into(
          sums + (cached.begin - a.first_key + seen.begin) * stride, seen.count,
          Eigen::InnerStride<>(stride));
      for (std::int64_t head = 0; head < a.group; ++head) {
        const ConstRow softmax(a.softmax + row * a.softmax_stride + 2 * head, 2);
        if (softmax[1] == 0.0F) continue;
        into +=
            (scores_of(a, cached.keys.middleRows(seen.begin, seen.count), query_at(a, row, head)) -
             softmax[0])
                .exp() /
            softmax[1];
      }
    }
  });
}

// Of each head: M = max(m_a, m_b)    w_i = s_i exp(m_i - M)
//   y = (w_a y_a + w_b y_b) / (w_a + w_b)    m = M    s = w_a + w_b
//   y: [heads, head_dim]    (m, s): [heads, 2]
// A part without keys, s = 0, leaves the other as it is.
void merge(const AttendedPart& from, const AttendedPart& into, std::int64_t heads,
           std::int64_t head_dim) {
  for (std::int64_t head = 0; head < heads; ++head) {
    const Eigen::Map<const Eigen::RowVector2f> softmax_a(from.softmax + 2 * head);
    const ConstRow y_a(from.output + head * head_dim, head_dim);
    Eigen::Map<Eigen::RowVector2f> softmax_b(into.softmax + 2 * head);
    Eigen::Map<Vector> y_b(into.output + head * head_dim, head_dim);
    if (softmax_a[1] == 0.0F) continue;
    if (softmax_b[1] == 0.0F) {
      softmax_b = softmax_a;
      y_b = y_a;
      continue;
    }
    const float most = std::max(softmax_a[0], softmax_b[0]);
    const float w_a = softmax_a[1] * std::exp(softmax_a[0] - most);
    const float w_b = softmax_b[1] * std::exp(softmax_b[0] - most);
    y_b = (w_a * y_a + w_b * y_b) / (w_a + w_b);
    softmax_b << most, w_a + w_b;
  }
}

}  // namespace tandem::exec::reference
