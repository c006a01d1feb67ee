// Scores of queries with some keys of a cache, softmax over them, and the mix of their values.
// Included once for each target, by Highway's convention, after <hwy/highway.h> and attention.hpp.

#if defined(TANDEM_EXEC_KERNELS_GRANULE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_EXEC_KERNELS_GRANULE_INL_HPP
#undef TANDEM_EXEC_KERNELS_GRANULE_INL_HPP
#else
#define TANDEM_EXEC_KERNELS_GRANULE_INL_HPP
#endif

#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "exec/kernels/cached_numbers-inl.hpp"
#include "exec/kernels/exp-inl.hpp"
#include "exec/kernels/partial-inl.hpp"
#include "exec/kernels/row_sums-inl.hpp"
#include "exec/kernels/scratch.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr int kQueries = kManyRegisters ? 8 : 6;  // query vectors that share a pass over the keys
// Vectors of positions (or of the head's dimension) in registers for each of Q queries: with AVX2
// eight sums where there are few, as each product waits four cycles for the one before.
template <int Q>
constexpr int kVectors = (kAvx2 && Q <= 2)            ? 8 / Q
                         : (!kManyRegisters || Q > 6) ? 2
                                                      : 4;

// A query vector: one row and one head.
struct Query {
  const float* q;
  float* out;          // accumulates probabilities times values, rescaled as the maximum grows
  std::int64_t first;  // keys from this one on are seen,
  std::int64_t limit;  // and below this one
  float maximum;
  // Of exp(score - maximum), by lanes; as numbers, since constructors that compilers make are for
  // no target of Highway's.
  alignas(64) float sums[HWY_LANES(float)];
};

struct Positions {
  std::int64_t begin;
  std::int64_t end;
};

// By what scores are multiplied, and what bounds them after that (0: nothing).
struct Scores {
  float scale;
  float cap;
};

// Keys and values that are scored together: the panels of kBlockGranule positions or, at the end of
// a sequence, fewer. `Number`: of keys.
template <class Number>
struct Granule {
  const Number* keys = nullptr;
  const ValueOf<Number>* values = nullptr;
};

// What to prefetch while scores are taken of a granule, and while its values are used. Null:
// nothing.
struct Next {
  const std::byte* meanwhile[2] = {};  // as much as is read of keys, and of values, from there on,
  const std::byte* beside[2] = {};     // or half of it, and half from there

  // Sets what rows prefetch before which `numbers` were read.
  template <int C, class Number>
  HWY_INLINE void prefetch(int part, std::int64_t numbers, Rows<C, Number>& rows) const {
    if (meanwhile[part] == nullptr) return;
    const std::int64_t done = numbers * static_cast<std::int64_t>(sizeof(Number));
    rows.ahead = meanwhile[part] + (beside[part] == nullptr ? done : done / 2);
    rows.beside = beside[part] == nullptr ? nullptr : beside[part] + done / 2;
  }
};

// scores[j][p] = cap(q_j . k_p * scale) for `positions`, whose panels begin at `keys`.
template <int Q, class Number>
HWY_INLINE void score(const Query* queries, const Number* HWY_RESTRICT keys, std::int64_t positions,
                      std::int64_t head_dim, Scores made, const Next& next,
                      float (*HWY_RESTRICT scores)[kBlockGranule]) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr int kWide = kVectors<Q>;
  const float factor = made.cap > 0.0F ? made.scale / made.cap : made.scale;
  float ones[Q];
  Sums<Q> sums;
  for (int j = 0; j < Q; ++j) {
    sums.out[j] = scores[j];
    ones[j] = 1.0F;
  }
  // Dimensions whose numbers share scales are added to those before: the same sums as in one go.
  const std::int64_t together = kHasScales<Number> ? kScaled : head_dim;
  for (std::int64_t p = 0; p < positions; p += kWide * lanes) {
    for (std::int64_t first = 0; first < head_dim; first += together) {
      Rows<kWide, Number> rows{{}, kPanel, together, p, nullptr};
      next.prefetch(0, p * head_dim + first * kWide * lanes, rows);
      for (int v = 0; v < kWide; ++v) {
        // Beyond the last panel there may be no memory: read the last one again, its scores go
        // unused
        const std::int64_t wanted = p + v * lanes;
        const std::int64_t last = (positions - 1) / kPanel * kPanel + kPanel - lanes;
        const std::int64_t position = wanted < last ? wanted : last;
        const Number* const panel = keys + stored<Number>(position / kPanel * kPanel * head_dim);
        rows.vectors[v] = panel + first * kPanel + position % kPanel;
        if constexpr (kHasScales<Number>) {
          rows.scales.at[v] =
              panel_scales(panel, head_dim) + first / kScaled * kPanel + position % kPanel;
        }
      }
      for (int j = 0; j < Q; ++j) sums.weights[j] = queries[j].q + first;
      sums.rescale = first == 0 ? nullptr : ones;
      sums.factor = first + together < head_dim ? 1.0F : factor;
      add_rows(sums, rows, Whole{});
    }
  }
  if (made.cap <= 0.0F) return;
  const V cap = hn::Set(d, made.cap);
  for (int j = 0; j < Q; ++j) {
    for (std::int64_t p = 0; p < positions; p += lanes) {
      hn::StoreU(hn::Mul(cap, hn::Tanh(d, hn::LoadU(d, scores[j] + p))), d, scores[j] + p);
    }
  }
}

// Leaves only the positions [from, to) of the block a score.
HWY_INLINE void hide_others(float* HWY_RESTRICT scores, std::int64_t from, std::int64_t to) {
  const float lowest = -std::numeric_limits<float>::infinity();
  for (std::int64_t p = 0; p < HWY_MIN(from, kBlockGranule); ++p) scores[p] = lowest;
  for (std::int64_t p = to; p < kBlockGranule; ++p) scores[p] = lowest;
}

// Turns scores into probabilities relative to the new maximum; returns by what the accumulated
// output must be scaled. Positions [from, to) of the block count, the others get 0.
HWY_INLINE float weigh(Query& query, float* HWY_RESTRICT scores, std::int64_t from,
                       std::int64_t to) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (from >= to) {
    for (std::int64_t p = 0; p < kBlockGranule; ++p) scores[p] = 0.0F;
    return 1.0F;
  }
  hide_others(scores, from, to);
  V largest = hn::LoadU(d, scores);
  for (std::int64_t p = lanes; p < kBlockGranule; p += lanes)
    largest = hn::Max(largest, hn::LoadU(d, scores + p));
  V sums = hn::Load(d, query.sums);
  float rescale = 1.0F;  // most blocks have no larger score
  if (!hn::AllFalse(d, hn::Gt(largest, hn::Set(d, query.maximum)))) {
    const float maximum = hn::GetLane(hn::MaxOfLanes(d, largest));
    rescale = std::exp(query.maximum - maximum);  // 0 for the first block
    query.maximum = maximum;
    sums = hn::Mul(sums, hn::Set(d, rescale));
  }
  const V shift = hn::Set(d, query.maximum);
  for (std::int64_t p = 0; p < kBlockGranule; p += lanes) {
    const V e = exp_of(d, hn::Sub(hn::LoadU(d, scores + p), shift));
    hn::StoreU(e, d, scores + p);
    sums = hn::Add(sums, e);
  }
  hn::Store(sums, d, query.sums);
  return rescale;
}

// out_j = out_j * rescale_j + sum of scores[j][p] value_p over `positions`.
template <int Q, class Number>
HWY_INLINE void mix(const Query* queries, const Number* HWY_RESTRICT values, Positions positions,
                    std::int64_t head_dim, const float (*HWY_RESTRICT scores)[kBlockGranule],
                    const float* rescale, const Next& next) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  Sums<Q> sums;
  for (int j = 0; j < Q; ++j) {
    sums.weights[j] = scores[j] + positions.begin;
    sums.out[j] = queries[j].out;
  }
  sums.rescale = rescale;
  sums.factor = 1.0F;
  const std::int64_t step = stored<Number>(head_dim);
  const Number* const first = values + positions.begin * step;
  const auto add = [&]<int C>(std::int64_t column, auto part) {
    Rows<C, Number> rows{{}, step, positions.end - positions.begin, column, nullptr};
    next.prefetch(1, column * kBlockGranule, rows);
    for (int c = 0; c < C; ++c) {
      const std::int64_t at = column + c * lanes;
      if constexpr (kHasScales<Number>) {
        rows.vectors[c] = value_level(first, at);
        rows.scales.at[c] = reinterpret_cast<const Half*>(value_block(first, at));
      } else {
        rows.vectors[c] = first + at;
      }
    }
    add_rows(sums, rows, part);
    return column + C * lanes;
  };
  std::int64_t column = 0;
  while (column + kVectors<Q> * lanes <= head_dim)
    column = add.template operator()<kVectors<Q>>(column, Whole{});
  while (column + lanes <= head_dim) column = add.template operator()<1>(column, Whole{});
  if constexpr (!kHasScales<Number>) {  // else there are whole vectors only
    if (column < head_dim) add.template operator()<1>(column, First{head_dim - column});
  }
}

// The first lines of what comes next, which lies where the processor cannot foresee: of each panel
// of the keys at `keys`, which are walked side by side, and of the values.
template <class Number>
HWY_INLINE void prefetch_starts(const Number* keys, const ValueOf<Number>* values,
                                std::int64_t head_dim) {
  constexpr std::int64_t kLine = 64 / sizeof(Number);
  constexpr std::int64_t kKeyLines = 4;
  constexpr std::int64_t kValueLines = 8;
  for (std::int64_t panel = 0; panel < kBlockGranule; panel += kPanel) {
    for (std::int64_t line = 0; line < kKeyLines; ++line)
      __builtin_prefetch(keys + stored<Number>(panel * head_dim) + line * kLine);
  }
  for (std::int64_t line = 0; line < kValueLines; ++line) __builtin_prefetch(values + line * kLine);
}

template <class Number>
HWY_INLINE Granule<Number> granule_at(const Attention& a, std::int64_t first) {
  return {a.cache.panel<const Number>(first, a.head_dim),
          a.cache.value<const ValueOf<Number>>(first, a.head_dim)};
}

// The first `positions` of it as f32, in the thread's memory.
template <class Number>
Granule<float> widened(const Granule<Number>& granule, std::int64_t positions,
                       std::int64_t head_dim) {
  static_assert(2 * kBlockGranule * kMaxHeadDim <= KernelScratch::kTileFloats);
  float* const keys = kernel_scratch().tile;
  float* const values = keys + kBlockGranule * head_dim;
  widen_keys(granule.keys, positions, head_dim, keys);
  widen_values(granule.values, positions, head_dim, values);
  return {keys, values};
}

// body(std::integral_constant<int, count>), count in [1, Q].
template <int Q = kQueries, class Body>
HWY_INLINE void with_count(int count, const Body& body) {
  if (count == Q) return body(std::integral_constant<int, Q>());
  if constexpr (Q > 1) with_count<Q - 1>(count, body);
}
}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
