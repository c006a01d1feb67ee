// The exponential of non-positive numbers, as in a softmax relative to its largest score. Included
// once for each target, by Highway's convention, after <hwy/highway.h>.

#if defined(TANDEM_EXEC_KERNELS_EXP_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_EXEC_KERNELS_EXP_INL_HPP
#undef TANDEM_EXEC_KERNELS_EXP_INL_HPP
#else
#define TANDEM_EXEC_KERNELS_EXP_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {

// Returns exp(x) for x <= 0, to about a unit of the last place; 0 below -87, near the end of
// float's normal numbers.
//   exp(x) = 2^n exp(r)    n = round(x / ln 2)    r = x - n ln 2
// The polynomial of exp(r), |r| <= ln 2 / 2, is that of Cephes' expf (S. Moshier).
template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> bits;
  const V magic = hn::Set(d, 12582912.0F);  // 1.5 2^23: a sum with it has n in its lowest bits
  const V t = hn::MulAdd(x, hn::Set(d, 1.44269504F), magic);
  const V n = hn::Sub(t, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);  // ln 2 in two parts
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  V p = hn::MulAdd(r, hn::Set(d, 1.98756915e-4F), hn::Set(d, 1.39819995e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 8.33345191e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.16657959e-2F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.66666655e-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.500000012F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  const auto power = hn::ShiftLeft<23>(hn::BitCast(bits, t));
  const V e = hn::BitCast(d, hn::Add(hn::BitCast(bits, p), power));
  return hn::IfThenElseZero(hn::Gt(x, hn::Set(d, -87.0F)), e);
}

}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
