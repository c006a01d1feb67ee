#include "exec/kernels/attention.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/attention.cpp"
#include "exec/kernels/targets.hpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
#include "exec/kernels/exp-inl.hpp"
#include "exec/kernels/partial-inl.hpp"
#include "exec/kernels/row_sums-inl.hpp"
// clang-format on

#include <cmath>
#include <limits>
#include <type_traits>

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
// a sequence, fewer.
template <class Number>
struct Granule {
  const Number* keys = nullptr;
  const Number* values = nullptr;
};

// What to prefetch while scores are taken of a granule, and while its values are used. Null:
// nothing.
template <class Number>
struct Next {
  const Number* meanwhile[2] = {};  // as much as is read of keys, and of values, from there on,
  const Number* beside[2] = {};     // or half of it, and half from there

  // Tells it to rows before which `done` numbers were read.
  template <int C>
  HWY_INLINE void prefetch(int part, std::int64_t done, Rows<C, Number>& rows) const {
    if (meanwhile[part] == nullptr) return;
    rows.ahead = meanwhile[part] + (beside[part] == nullptr ? done : done / 2);
    rows.beside = beside[part] == nullptr ? nullptr : beside[part] + done / 2;
  }
};

// scores[j][p] = cap(q_j . k_p * scale) for `positions`, whose panels begin at `keys`.
template <int Q, class Number>
HWY_INLINE void score(const Query* queries, const Number* HWY_RESTRICT keys, std::int64_t positions,
                      std::int64_t head_dim, Scores made, const Next<Number>& next,
                      float (*HWY_RESTRICT scores)[kBlockGranule]) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr int kWide = kVectors<Q>;
  Sums<Q> sums;
  for (int j = 0; j < Q; ++j) {
    sums.weights[j] = queries[j].q;
    sums.out[j] = scores[j];
  }
  sums.rescale = nullptr;
  sums.factor = made.cap > 0.0F ? made.scale / made.cap : made.scale;
  for (std::int64_t p = 0; p < positions; p += kWide * lanes) {
    Rows<kWide, Number> rows{{}, kPanel, head_dim, p, nullptr};
    next.prefetch(0, p * head_dim, rows);
    for (int v = 0; v < kWide; ++v) {
      // Beyond the last panel there may be no memory: read the last one again, its scores go unused
      const std::int64_t wanted = p + v * lanes;
      const std::int64_t last = (positions - 1) / kPanel * kPanel + kPanel - lanes;
      const std::int64_t position = wanted < last ? wanted : last;
      rows.vectors[v] = keys + position / kPanel * kPanel * head_dim + position % kPanel;
    }
    add_rows(sums, rows, Whole{});
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
                    const float* rescale, const Next<Number>& next) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  Sums<Q> sums;
  for (int j = 0; j < Q; ++j) {
    sums.weights[j] = scores[j] + positions.begin;
    sums.out[j] = queries[j].out;
  }
  sums.rescale = rescale;
  sums.factor = 1.0F;
  const Number* const first = values + positions.begin * head_dim;
  const auto add = [&]<int C>(std::int64_t column, auto part) {
    Rows<C, Number> rows{{}, head_dim, positions.end - positions.begin, column, nullptr};
    next.prefetch(1, column * kBlockGranule, rows);
    for (int c = 0; c < C; ++c) rows.vectors[c] = first + column + c * lanes;
    add_rows(sums, rows, part);
    return column + C * lanes;
  };
  std::int64_t column = 0;
  while (column + kVectors<Q> * lanes <= head_dim)
    column = add.template operator()<kVectors<Q>>(column, Whole{});
  while (column + lanes <= head_dim) column = add.template operator()<1>(column, Whole{});
  if (column < head_dim) add.template operator()<1>(column, First{head_dim - column});
}

// The first lines of what comes next, which lies where the processor cannot foresee: of each panel
// of the keys at `keys`, which are walked side by side, and of the values.
template <class Number>
HWY_INLINE void prefetch_starts(const Number* keys, const Number* values, std::int64_t head_dim) {
  constexpr std::int64_t kLine = 64 / sizeof(Number);
  constexpr std::int64_t kKeyLines = 4;
  constexpr std::int64_t kValueLines = 8;
  for (std::int64_t panel = 0; panel < kBlockGranule; panel += kPanel) {
    for (std::int64_t line = 0; line < kKeyLines; ++line)
      __builtin_prefetch(keys + panel * head_dim + line * kLine);
  }
  for (std::int64_t line = 0; line < kValueLines; ++line) __builtin_prefetch(values + line * kLine);
}

// Queries that share a pass over a block; of the positions that any of them sees.
struct Pass {
  Query queries[kQueries];
  int count;
  std::int64_t first;  // the same
  std::int64_t end;
};

template <class Number>
HWY_INLINE Granule<Number> granule_at(const Attention& a, std::int64_t first) {
  return {
      a.cache.block<const Number>(first, a.head_dim) + first % a.cache.block_positions * a.head_dim,
      a.cache.value<const Number>(first, a.head_dim)};
}

// The first `positions` of it as f32, in the thread's memory.
Granule<float> widened(const Granule<Half>& granule, std::int64_t positions,
                       std::int64_t head_dim) {
  static_assert(2 * kBlockGranule * kMaxHeadDim <= KernelScratch::kTileFloats);
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  float* const keys = kernel_scratch().tile;
  float* const values = keys + kBlockGranule * head_dim;
  for (std::int64_t i = 0; i < key_numbers(positions, head_dim); i += lanes)
    hn::StoreU(numbers(granule.keys + i), d, keys + i);
  for_vectors(d, positions * head_dim, [&](std::int64_t i, auto part) {
    store(numbers(granule.values + i, part), d, values + i, part);
  });
  return {keys, values};
}

// The positions from `first` on, which `granule` has, for the queries of a pass.
template <int Q, class Number>
void attend_block(const Attention& a, const Granule<Number>& granule, const Next<Number>& next,
                  Query* queries, std::int64_t first, std::int64_t end) {
  const Scores made{a.scale > 0.0F ? a.scale : 1.0F / std::sqrt(static_cast<float>(a.head_dim)),
                    a.cap};
  alignas(64) float scores[Q][kBlockGranule];
  float rescale[Q];
  const std::int64_t positions = HWY_MIN(kBlockGranule, end - first);
  score<Q>(queries, granule.keys, positions, a.head_dim, made, next, scores);
  std::int64_t from = kBlockGranule;
  for (int j = 0; j < Q; ++j) {
    const std::int64_t seen = HWY_MAX(std::int64_t{0}, queries[j].first - first);
    rescale[j] =
        weigh(queries[j], scores[j], seen, HWY_MIN(kBlockGranule, queries[j].limit - first));
    from = HWY_MIN(from, seen);
  }
  mix<Q>(queries, granule.values, {from, positions}, a.head_dim, scores, rescale, next);
}

// body(std::integral_constant<int, count>), count in [1, Q].
template <int Q = kQueries, class Body>
HWY_INLINE void with_count(int count, const Body& body) {
  if (count == Q) return body(std::integral_constant<int, Q>());
  if constexpr (Q > 1) with_count<Q - 1>(count, body);
}

template <class Number>
void attend_pass(const Attention& a, const Granule<Number>& granule, const Next<Number>& next,
                 Pass& pass, std::int64_t first) {
  with_count(pass.count, [&](auto count) {
    attend_block<count>(a, granule, next, pass.queries, first, pass.end);
  });
}

// The queries [begin, end), in order of rows, heads of a row side by side: neighbours see almost
// the same keys.
Pass pass_of(const Attention& a, std::int64_t begin, std::int64_t end) {
  Pass pass;
  pass.count = static_cast<int>(end - begin);
  pass.first = a.end_key;
  pass.end = 0;
  for (int j = 0; j < pass.count; ++j) {
    const std::int64_t row = (begin + j) / a.group;
    const std::int64_t head = (begin + j) % a.group;
    Query& query = pass.queries[j];
    const std::int64_t limit = HWY_MIN(a.end_key, a.past + row + 1);
    const std::int64_t first =
        a.window > 0 ? HWY_MAX(a.first_key, a.past + row + 1 - a.window) : a.first_key;
    query = {a.queries + row * a.query_stride + head * a.head_dim,
             a.output + row * a.output_stride + head * a.head_dim,
             first,
             limit,
             -std::numeric_limits<float>::infinity(),
             {}};
    for (std::int64_t i = 0; i < a.head_dim; ++i) query.out[i] = 0.0F;
    pass.first = HWY_MIN(pass.first, query.first);
    pass.end = HWY_MAX(pass.end, query.limit);
  }
  return pass;
}

// Passes that share the blocks they read: while a cache has one, it is read from memory once for
// their queries, and of an F16 cache converted once.
template <class Number>
constexpr std::int64_t kTogether = sizeof(Number) < sizeof(float) ? 24 : 8;
// So many convert what they read, each for itself.
constexpr std::int64_t kFewPasses = 2;

// What few queries, which wait for memory, prefetch of all of what comes next, a line or two at a
// time, while they use the granule from `first`. In the order of memory, half a granule ahead: its
// values while scores are taken, and while these are used the keys of the granule after it. Or in
// two places at once, as one stream does not get all that memory gives: during each pair of
// granules the next pair, keys first.
template <class Number>
HWY_INLINE Next<Number> next_of(const Attention& a, const Granule<Number>& granule,
                                std::int64_t first, std::int64_t end, int queries) {
  constexpr std::int64_t kPairBytes = std::int64_t{128} * 1024;  // two are in a cache at a time
  const std::int64_t numbers = kBlockGranule * a.head_dim;       // keys of a granule
  Next<Number> next;
  if (queries <= kTwoPlaces<Number> &&
      4 * numbers * static_cast<std::int64_t>(sizeof(Number)) <= kPairBytes) {
    const std::int64_t pair = (first / kBlockGranule / 2 + 1) * 2 * kBlockGranule;
    if (pair >= end) return next;
    const std::int64_t other = pair + kBlockGranule < end ? pair + kBlockGranule : pair;
    const bool odd = pair - first == kBlockGranule;
    const Granule<Number> one = granule_at<Number>(a, pair);
    const Granule<Number> two = granule_at<Number>(a, other);
    for (int part = 0; part < 2; ++part) {
      next.meanwhile[part] = (odd ? one.values : one.keys) + part * numbers / 2;
      next.beside[part] = (odd ? two.values : two.keys) + part * numbers / 2;
    }
    return next;
  }
  const std::int64_t after = first + kBlockGranule;
  next.meanwhile[0] = granule.values;
  if (after < end) next.meanwhile[1] = granule_at<Number>(a, after).keys;
  return next;
}

// The positions from `first` of one block, for the passes that see any of them; `end`: of all.
template <class Number>
void attend_together(const Attention& a, Pass* together, std::int64_t count, std::int64_t first,
                     std::int64_t end) {
  Pass* seeing[kTogether<Number>];
  std::int64_t passes = 0;
  std::int64_t seen = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (first >= together[i].end || together[i].first >= first + kBlockGranule) continue;
    seeing[passes++] = &together[i];
    seen = HWY_MAX(seen, together[i].end);
  }
  if (passes == 0) return;
  const Granule<Number> granule = granule_at<Number>(a, first);
  const std::int64_t after = first + kBlockGranule;
  const bool more = after < end;
  if constexpr (sizeof(Number) < sizeof(float)) {
    if (passes > kFewPasses) {  // made into f32 once for all of them
      if (more) prefetch_starts(granule_at<Number>(a, after).keys, granule.values, a.head_dim);
      const Granule<float> wide =
          widened(granule, HWY_MIN(kBlockGranule, seen - first), a.head_dim);
      for (std::int64_t i = 0; i < passes; ++i) attend_pass(a, wide, {}, *seeing[i], first);
      return;
    }
  }
  const Next<Number> next = next_of(a, granule, first, end, seeing[0]->count);
  for (std::int64_t i = 0; i < passes; ++i)
    attend_pass(a, granule, i == 0 ? next : Next<Number>(), *seeing[i], first);
}

template <class Number>
void attend_over(const Attention& a) {
  const std::int64_t all = a.rows * a.group;
  const std::int64_t passes = (all + kQueries - 1) / kQueries;
  for (std::int64_t done = 0; done < passes; done += kTogether<Number>) {
    const std::int64_t count = HWY_MIN(kTogether<Number>, passes - done);
    Pass together[kTogether<Number>];
    std::int64_t begin = a.end_key;
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      together[i] = pass_of(a, all * (done + i) / passes, all * (done + i + 1) / passes);
      begin = HWY_MIN(begin, together[i].first);
      end = HWY_MAX(end, together[i].end);
    }
    for (std::int64_t first = begin / kBlockGranule * kBlockGranule; first < end;
         first += kBlockGranule) {
      attend_together<Number>(a, together, count, first, end);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      for (int j = 0; j < together[i].count; ++j) {
        const Query& query = together[i].queries[j];
        const float sum = hn::GetLane(hn::SumOfLanes(Floats(), hn::Load(Floats(), query.sums)));
        const float factor = sum > 0.0F ? 1.0F / sum : 0.0F;
        for (std::int64_t k = 0; k < a.head_dim; ++k) query.out[k] *= factor;
        if (a.softmax != nullptr) {
          const std::int64_t at = all * (done + i) / passes + j;
          float* const told = a.softmax + at / a.group * a.softmax_stride + at % a.group * 2;
          told[0] = query.maximum;
          told[1] = sum;
        }
      }
    }
  }
}

void attend(const Attention& a) {
  switch (a.cache.format) {
    case model::CacheFormat::f32:
      return attend_over<float>(a);
    case model::CacheFormat::f16:
      return attend_over<Half>(a);
  }
}

// Adds to `columns` what the positions from `first` on, which `granule` has, weigh for queries with
// these denominators.
template <int Q, class Number>
void weigh_granule(const Attention& a, const Granule<Number>& granule, const Query* queries,
                   const float* denominators, std::int64_t first, float* HWY_RESTRICT columns) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Scores made{a.scale > 0.0F ? a.scale : 1.0F / std::sqrt(static_cast<float>(a.head_dim)),
                    a.cap};
  alignas(64) float scores[Q][kBlockGranule];
  const std::int64_t positions = HWY_MIN(kBlockGranule, a.end_key - first);
  score<Q>(queries, granule.keys, positions, a.head_dim, made, Next<Number>(), scores);
  for (int j = 0; j < Q; ++j) {
    if (denominators[j] == 0.0F) continue;
    const std::int64_t from = HWY_MAX(std::int64_t{0}, queries[j].first - first);
    hide_others(scores[j], from, HWY_MAX(from, HWY_MIN(positions, queries[j].limit - first)));
    const V shift = hn::Set(d, queries[j].maximum);
    const V part = hn::Set(d, 1.0F / denominators[j]);
    for (std::int64_t p = 0; p < kBlockGranule; p += lanes) {
      const V e = exp_of(d, hn::Sub(hn::LoadU(d, scores[j] + p), shift));
      hn::StoreU(hn::MulAdd(e, part, hn::LoadU(d, columns + p)), d, columns + p);
    }
  }
}

template <class Number>
void weigh_keys_over(const Attention& a, float* sums, std::int64_t stride) {
  const std::int64_t all = a.rows * a.group;
  for (std::int64_t first = a.first_key / kBlockGranule * kBlockGranule; first < a.end_key;
       first += kBlockGranule) {
    const Granule<Number> granule = granule_at<Number>(a, first);
    alignas(64) float columns[kBlockGranule] = {};
    for (std::int64_t begin = 0; begin < all; begin += kQueries) {
      const int count = static_cast<int>(HWY_MIN(std::int64_t{kQueries}, all - begin));
      Query queries[kQueries];
      float denominators[kQueries];
      std::int64_t limit = 0;
      for (int j = 0; j < count; ++j) {
        const std::int64_t row = (begin + j) / a.group;
        const std::int64_t head = (begin + j) % a.group;
        const float* const told = a.softmax + row * a.softmax_stride + 2 * head;
        queries[j] = {
            a.queries + row * a.query_stride + head * a.head_dim,
            nullptr,
            a.window > 0 ? HWY_MAX(a.first_key, a.past + row + 1 - a.window) : a.first_key,
            HWY_MIN(a.end_key, a.past + row + 1),
            told[0],
            {}};
        denominators[j] = told[1];
        limit = HWY_MAX(limit, queries[j].limit);
      }
      if (limit <= first) continue;
      with_count(count, [&](auto q) {
        weigh_granule<q>(a, granule, queries, denominators, first, columns);
      });
    }
    const std::int64_t from = HWY_MAX(a.first_key, first);
    const std::int64_t to = HWY_MIN(a.end_key, first + kBlockGranule);
    for (std::int64_t k = from; k < to; ++k) sums[(k - a.first_key) * stride] += columns[k - first];
  }
}

void weigh_keys(const Attention& a, float* sums, std::int64_t stride) {
  switch (a.cache.format) {
    case model::CacheFormat::f32:
      return weigh_keys_over<float>(a, sums, stride);
    case model::CacheFormat::f16:
      return weigh_keys_over<Half>(a, sums, stride);
  }
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::exec {

namespace {

// Returns `a` for keys as they are stored: scores are multiplied by their scale.
Attention of_stored_keys(Attention a) {
  if (a.cache.scales == nullptr) return a;
  if (!(a.scale > 0.0F)) a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
  a.scale *= a.cache.scales->key;
  return a;
}

}  // namespace

HWY_EXPORT(attend);
void attend(const Attention& a) {
  HWY_DYNAMIC_DISPATCH(attend)(of_stored_keys(a));
  const float scale = a.cache.scales == nullptr ? 1.0F : a.cache.scales->value;
  if (scale == 1.0F) return;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    float* const output = a.output + row * a.output_stride;
    for (std::int64_t i = 0; i < a.group * a.head_dim; ++i) output[i] *= scale;
  }
}

HWY_EXPORT(weigh_keys);
void weigh_keys(const Attention& a, float* sums, std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(weigh_keys)(of_stored_keys(a), sums, stride);
}

}  // namespace tandem::exec
#endif
