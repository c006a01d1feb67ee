// Vectors that may reach beyond the end of an array: the lanes beyond it are neither read nor
// written (Highway's own masked loads may touch them where the hardware has no masks).
// Included once for each target, by Highway's convention, after <hwy/highway.h>.

#if defined(TANDEM_EXEC_KERNELS_PARTIAL_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_EXEC_KERNELS_PARTIAL_INL_HPP
#undef TANDEM_EXEC_KERNELS_PARTIAL_INL_HPP
#else
#define TANDEM_EXEC_KERNELS_PARTIAL_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {

struct Whole {};  // all lanes
struct First {    // the first n lanes, 0 < n < all
  std::int64_t n;
};

constexpr bool kHasMasks = HWY_TARGET <= HWY_AVX2 || HWY_HAVE_SCALABLE;

template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> load(D d, const float* p, Whole) {
  return hwy::HWY_NAMESPACE::LoadU(d, p);
}

template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> load(D d, const float* p, First part) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kHasMasks) {
    return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(part.n)), d, p);
  } else {
    HWY_ALIGN float lanes[hn::MaxLanes(D())] = {};
    for (std::int64_t i = 0; i < part.n; ++i) lanes[i] = p[i];
    return hn::Load(d, lanes);
  }
}

template <class D, class V>
HWY_INLINE void store(V v, D d, float* p, Whole) {
  hwy::HWY_NAMESPACE::StoreU(v, d, p);
}

template <class D, class V>
HWY_INLINE void store(V v, D d, float* p, First part) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kHasMasks) {
    hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(part.n)), d, p);
  } else {
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    hn::Store(v, d, lanes);
    for (std::int64_t i = 0; i < part.n; ++i) p[i] = lanes[i];
  }
}

// Calls body(i, part) for every vector of [0, n).
template <class D, class Body>
HWY_INLINE void for_vectors(D d, std::int64_t n, const Body& body) {
  const auto lanes = static_cast<std::int64_t>(hwy::HWY_NAMESPACE::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, Whole{});
  if (i < n) body(i, First{n - i});
}

}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
