#include "exec/kernels/scale_search.hpp"

#include "exec/weights/formats/k_codec.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/scale_search.cpp"
#include "exec/kernels/targets.hpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A lane a part.
template <std::size_t kParts>
using Floats = hn::CappedTag<float, kParts>;
template <std::size_t kParts>
using V = hn::Vec<Floats<kParts>>;

// The i-th numbers of all parts side by side, then the next ones.
template <std::size_t kParts>
struct Columns {
  static constexpr std::size_t kSize = kLongBlock / kParts;  // numbers of a part
  HWY_ALIGN float at[kLongBlock];

  explicit Columns(const float* x) {
    for (std::size_t part = 0; part < kParts; ++part)
      for (std::size_t i = 0; i < kSize; ++i) at[i * kParts + part] = x[part * kSize + i];
  }
};

// What does not change from trial to trial, of the parts of one vector.
template <std::size_t kParts>
struct Numbers {
  static constexpr std::size_t kSize = Columns<kParts>::kSize;
  V<kParts> x[kSize];
  V<kParts> weights[kSize];
  V<kParts> weighed[kSize];  // their products
};

template <std::size_t kParts>
struct Fit {
  V<kParts> scale;
  V<kParts> least;
};

template <bool kAbsolute, std::size_t kParts>
HWY_INLINE V<kParts> loss_of(const Fit<kParts>& fit, const Numbers<kParts>& numbers,
                             const V<kParts>* q) {
  V<kParts> sum = hn::Zero(Floats<kParts>());
  for (std::size_t i = 0; i < Numbers<kParts>::kSize; ++i) {
    const auto off = hn::Sub(hn::Sub(hn::Mul(fit.scale, q[i]), fit.least), numbers.x[i]);
    const auto weighed = kAbsolute ? hn::Abs(off) : hn::Mul(off, off);
    sum = hn::Add(sum, hn::Mul(numbers.weights[i], weighed));
  }
  return sum;
}

// The nearest level among 0 ... most; of NaN, which infinite quotients make, 0.
template <std::size_t kParts>
HWY_INLINE V<kParts> level_of(V<kParts> x, V<kParts> most) {
  const auto positive = hn::IfThenElseZero(hn::Gt(x, hn::Zero(Floats<kParts>())), x);
  return hn::Round(hn::Min(positive, most));
}

template <bool kAbsolute, std::size_t kParts>
HWY_INLINE Fit<kParts> search_affine(const Numbers<kParts>& numbers, const ScaleTrials& trials) {
  constexpr std::size_t kSize = Numbers<kParts>::kSize;
  const Floats<kParts> d;
  const auto zero = hn::Zero(d);
  const auto levels = hn::Set(d, static_cast<float>(trials.most));
  auto low = numbers.x[0];
  auto high = numbers.x[0];
  auto sum_w = zero;
  auto sum_x = zero;
  for (std::size_t i = 0; i < kSize; ++i) {
    low = hn::Min(low, numbers.x[i]);
    high = hn::Max(high, numbers.x[i]);
    sum_w = hn::Add(sum_w, numbers.weights[i]);
    sum_x = hn::Add(sum_x, numbers.weighed[i]);
  }
  const auto least = hn::Min(low, zero);
  const auto width = hn::Sub(high, least);

  V<kParts> q[kSize];
  Fit<kParts> best{hn::Div(width, levels), hn::Neg(least)};
  const auto covering = hn::Div(levels, width);
  for (std::size_t i = 0; i < kSize; ++i)
    q[i] = level_of<kParts>(hn::Mul(covering, hn::Sub(numbers.x[i], least)), levels);
  auto lost = loss_of<kAbsolute>(best, numbers, q);
  for (int t = 0; t <= trials.steps; ++t) {
    const float tried =
        trials.first + trials.step * static_cast<float>(t) + static_cast<float>(trials.most);
    const auto by = hn::Div(hn::Set(d, tried), width);
    auto sum_q = zero;
    auto sum_qq = zero;
    auto sum_xq = zero;
    for (std::size_t i = 0; i < kSize; ++i) {
      q[i] = level_of<kParts>(hn::Mul(by, hn::Sub(numbers.x[i], least)), levels);
      const auto weighed = hn::Mul(numbers.weights[i], q[i]);
      sum_q = hn::Add(sum_q, weighed);
      sum_qq = hn::Add(sum_qq, hn::Mul(weighed, q[i]));
      sum_xq = hn::Add(sum_xq, hn::Mul(numbers.weighed[i], q[i]));
    }
    const auto determinant = hn::Sub(hn::Mul(sum_w, sum_qq), hn::Mul(sum_q, sum_q));
    const auto scale = hn::Div(hn::Sub(hn::Mul(sum_w, sum_xq), hn::Mul(sum_x, sum_q)), determinant);
    const auto minus =
        hn::Div(hn::Neg(hn::Sub(hn::Mul(sum_qq, sum_x), hn::Mul(sum_q, sum_xq))), determinant);
    const auto below = hn::Lt(minus, zero);
    const Fit<kParts> fitted{hn::IfThenElse(below, hn::Div(sum_xq, sum_qq), scale),
                             hn::IfThenZeroElse(below, minus)};
    const auto now = loss_of<kAbsolute>(fitted, numbers, q);
    // Of NaN, which numbers beyond any format make, neither comparison is true.
    const auto kept = hn::Or(hn::Le(determinant, zero), hn::Ge(now, lost));
    lost = hn::IfThenElse(kept, lost, now);
    best.scale = hn::IfThenElse(kept, best.scale, fitted.scale);
    best.least = hn::IfThenElse(kept, best.least, fitted.least);
  }
  const auto flat = hn::Le(high, least);
  return {hn::IfThenZeroElse(flat, best.scale), hn::IfThenElse(flat, hn::Neg(least), best.least)};
}

template <bool kAbsolute, std::size_t kParts>
HWY_INLINE void search_parts(const float* block, const ScaleTrials& trials,
                             AffineScales<kParts>& found) {
  constexpr std::size_t kSize = Numbers<kParts>::kSize;
  const Floats<kParts> d;
  const Columns<kParts> columns(block);
  for (std::size_t part = 0; part < kParts; part += hn::Lanes(d)) {
    Numbers<kParts> numbers;
    auto squares = hn::Zero(d);
    for (std::size_t i = 0; i < kSize; ++i) {
      numbers.x[i] = hn::LoadU(d, columns.at + i * kParts + part);
      squares = hn::Add(squares, hn::Mul(numbers.x[i], numbers.x[i]));
    }
    const auto mean =
        kAbsolute ? hn::Zero(d) : hn::Sqrt(hn::Div(squares, hn::Set(d, static_cast<float>(kSize))));
    for (std::size_t i = 0; i < kSize; ++i) {
      numbers.weights[i] = hn::Add(mean, hn::Abs(numbers.x[i]));
      numbers.weighed[i] = hn::Mul(numbers.weights[i], numbers.x[i]);
    }
    const Fit<kParts> fit = search_affine<kAbsolute>(numbers, trials);
    hn::StoreU(fit.scale, d, found.scale.data() + part);
    hn::StoreU(fit.least, d, found.least.data() + part);
  }
}

void squares(const float* x, const ScaleTrials& trials, AffineScales<8>& found) {
  search_parts<false>(x, trials, found);
}

void magnitudes(const float* x, const ScaleTrials& trials, AffineScales<16>& found) {
  search_parts<true>(x, trials, found);
}

void scales(const float* block, int most, std::array<float, 16>& found) {
  constexpr float kTooSmall = 1e-15F;  // numbers of which nothing is left
  constexpr int kTrials = 9;           // on either side
  using Here = Columns<16>;
  const Floats<16> d;
  const auto zero = hn::Zero(d);
  const auto levels = static_cast<float>(most);
  const auto lowest = hn::Set(d, -levels);
  const auto highest = hn::Set(d, levels - 1.0F);
  const Here columns(block);
  for (std::size_t part = 0; part < 16; part += hn::Lanes(d)) {
    V<16> x[Here::kSize];
    V<16> second[Here::kSize];  // powers
    V<16> third[Here::kSize];
    auto extreme = hn::LoadU(d, columns.at + part);
    for (std::size_t i = 0; i < Here::kSize; ++i) {
      x[i] = hn::LoadU(d, columns.at + i * 16 + part);
      second[i] = hn::Mul(x[i], x[i]);
      third[i] = hn::Mul(second[i], x[i]);
      extreme = hn::IfThenElse(hn::Gt(hn::Abs(x[i]), hn::Abs(extreme)), x[i], extreme);
    }
    auto best = zero;
    auto gained = zero;
    for (int t = -kTrials; t <= kTrials; ++t) {
      const auto by = hn::Div(hn::Set(d, -(levels + 0.1F * static_cast<float>(t))), extreme);
      auto sum_xq = zero;
      auto sum_qq = zero;
      for (std::size_t i = 0; i < Here::kSize; ++i) {
        const auto q = hn::Round(hn::Min(hn::Max(hn::Mul(by, x[i]), lowest), highest));
        sum_xq = hn::Add(sum_xq, hn::Mul(third[i], q));
        sum_qq = hn::Add(sum_qq, hn::Mul(hn::Mul(second[i], q), q));
      }
      const auto kept =
          hn::Or(hn::Le(sum_qq, zero), hn::Le(hn::Mul(sum_xq, sum_xq), hn::Mul(gained, sum_qq)));
      const auto fitted = hn::Div(sum_xq, sum_qq);
      best = hn::IfThenElse(kept, best, fitted);
      gained = hn::IfThenElse(kept, gained, hn::Mul(fitted, sum_xq));
    }
    best = hn::IfThenZeroElse(hn::Lt(hn::Abs(extreme), hn::Set(d, kTooSmall)), best);
    hn::StoreU(best, d, found.data() + part);
  }
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::exec {

HWY_EXPORT(squares);
HWY_EXPORT(magnitudes);
HWY_EXPORT(scales);

AffineScales<8> search_squares(const float* x, const ScaleTrials& trials) {
  AffineScales<8> found;
  HWY_DYNAMIC_DISPATCH(squares)(x, trials, found);
  return found;
}

AffineScales<16> search_magnitudes(const float* x, const ScaleTrials& trials) {
  AffineScales<16> found;
  HWY_DYNAMIC_DISPATCH(magnitudes)(x, trials, found);
  return found;
}

std::array<float, 16> search_scales(const float* x, int most) {
  std::array<float, 16> found{};
  HWY_DYNAMIC_DISPATCH(scales)(x, most, found);
  return found;
}

}  // namespace tandem::exec
#endif
