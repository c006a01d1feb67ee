// Attention over a cache of `Number`s (exec/kernels/attention.hpp).
// Included once for each target, by Highway's convention, after <hwy/highway.h> and attention.hpp.

#if defined(TANDEM_EXEC_KERNELS_ATTENTION_OVER_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_EXEC_KERNELS_ATTENTION_OVER_INL_HPP
#undef TANDEM_EXEC_KERNELS_ATTENTION_OVER_INL_HPP
#else
#define TANDEM_EXEC_KERNELS_ATTENTION_OVER_INL_HPP
#endif

#include "exec/kernels/granule-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {
namespace {

// Queries that share a pass over a block; of the positions that any of them sees.
struct Pass {
  Query queries[kQueries];
  int count;
  std::int64_t first;  // the same
  std::int64_t end;
};

// The positions from `first` on, which `granule` has, for the queries of a pass.
template <int Q, class Number>
void attend_block(const Attention& a, const Granule<Number>& granule, const Next& next,
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

template <class Number>
void attend_pass(const Attention& a, const Granule<Number>& granule, const Next& next, Pass& pass,
                 std::int64_t first) {
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
// their queries, and of a narrow cache converted once.
template <class Number>
constexpr std::int64_t kTogether = kIsNarrow<Number> ? 24 : 8;
// So many convert what they read, each for itself.
constexpr std::int64_t kFewPasses = 2;

// What few queries, which wait for memory, prefetch of all of what comes next, a line or two at a
// time, while they use the granule from `first`. In the order of memory, half a granule ahead: its
// values while scores are taken, and while these are used the keys of the granule after it. Or in
// two places at once, as one stream does not get all that memory gives: during each pair of
// granules the next pair, keys first.
template <class Number>
HWY_INLINE Next next_of(const Attention& a, const Granule<Number>& granule, std::int64_t first,
                        std::int64_t end, int queries) {
  constexpr std::int64_t kPairBytes = std::int64_t{128} * 1024;  // two are in a cache at a time
  // Of a granule's keys, and of its values.
  const std::int64_t bytes = model::cache_bytes(a.cache.format, kBlockGranule * a.head_dim);
  const auto at = [](const auto* from) { return reinterpret_cast<const std::byte*>(from); };
  Next next;
  if (queries <= kTwoPlaces<Number> && 4 * bytes <= kPairBytes) {
    const std::int64_t pair = (first / kBlockGranule / 2 + 1) * 2 * kBlockGranule;
    if (pair >= end) return next;
    const std::int64_t other = pair + kBlockGranule < end ? pair + kBlockGranule : pair;
    const bool odd = pair - first == kBlockGranule;
    const Granule<Number> one = granule_at<Number>(a, pair);
    const Granule<Number> two = granule_at<Number>(a, other);
    for (int part = 0; part < 2; ++part) {
      next.meanwhile[part] = (odd ? at(one.values) : at(one.keys)) + part * bytes / 2;
      next.beside[part] = (odd ? at(two.values) : at(two.keys)) + part * bytes / 2;
    }
    return next;
  }
  const std::int64_t after = first + kBlockGranule;
  next.meanwhile[0] = at(granule.values);
  if (after < end) next.meanwhile[1] = at(granule_at<Number>(a, after).keys);
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
  if constexpr (kIsNarrow<Number>) {
    if (passes > kFewPasses) {  // made into f32 once for all of them
      if (more) prefetch_starts(granule_at<Number>(a, after).keys, granule.values, a.head_dim);
      const Granule<float> wide =
          widened(granule, HWY_MIN(kBlockGranule, seen - first), a.head_dim);
      for (std::int64_t i = 0; i < passes; ++i) attend_pass(a, wide, {}, *seeing[i], first);
      return;
    }
  }
  const Next next = next_of(a, granule, first, end, seeing[0]->count);
  for (std::int64_t i = 0; i < passes; ++i)
    attend_pass(a, granule, i == 0 ? next : Next(), *seeing[i], first);
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
          float* const maximum_and_sum =
              a.softmax + at / a.group * a.softmax_stride + at % a.group * 2;
          maximum_and_sum[0] = query.maximum;
          maximum_and_sum[1] = sum;
        }
      }
    }
  }
}
}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
