// What keys of a cache of `Number`s weigh (weigh_keys of exec/kernels/attention.hpp).
// Included once for each target, by Highway's convention, after <hwy/highway.h> and attention.hpp.

#if defined(TANDEM_EXEC_KERNELS_KEY_WEIGHTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_EXEC_KERNELS_KEY_WEIGHTS_INL_HPP
#undef TANDEM_EXEC_KERNELS_KEY_WEIGHTS_INL_HPP
#else
#define TANDEM_EXEC_KERNELS_KEY_WEIGHTS_INL_HPP
#endif

#include "exec/kernels/granule-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {
namespace {

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
  score<Q>(queries, granule.keys, positions, a.head_dim, made, Next(), scores);
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
        const float* const maximum_and_sum = a.softmax + row * a.softmax_stride + 2 * head;
        queries[j] = {
            a.queries + row * a.query_stride + head * a.head_dim,
            nullptr,
            a.window > 0 ? HWY_MAX(a.first_key, a.past + row + 1 - a.window) : a.first_key,
            HWY_MIN(a.end_key, a.past + row + 1),
            maximum_and_sum[0],
            {}};
        denominators[j] = maximum_and_sum[1];
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
}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
