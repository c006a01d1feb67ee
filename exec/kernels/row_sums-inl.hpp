// Sums of rows of a cache, each times a number: what scores and the mix of values both are.
// Included once for each target, by Highway's convention, after cached_numbers-inl.hpp.

#if defined(TANDEM_EXEC_KERNELS_ROW_SUMS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_EXEC_KERNELS_ROW_SUMS_INL_HPP
#undef TANDEM_EXEC_KERNELS_ROW_SUMS_INL_HPP
#else
#define TANDEM_EXEC_KERNELS_ROW_SUMS_INL_HPP
#endif

#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {
namespace {

constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
constexpr bool kAvx2 = HWY_TARGET == HWY_AVX2;
// Up to so many queries prefetch from two places at once: processors without AVX-512 have fewer
// requests to memory under way (measured: one AMD Zen 3). More of a narrow cache wait for
// arithmetic.
template <class Number>
constexpr int kTwoPlaces = !kAvx2              ? 0
                           : kIsNarrow<Number> ? 2
                                               : 4;

// For each of Q queries a sum of rows, each row times a number of the query's:
//   out_j = factor (rescale_j out_j + sum over i of weights_j[i] row_i)
template <int Q>
struct Sums {
  const float* weights[Q];
  float* out[Q];
  const float* rescale;  // null: sums begin at 0
  float factor;
};

// C vectors of `count` rows, and of the sums those from `column` on.
template <int C, class Number>
struct Rows {
  const Number* vectors[C];  // of the first row
  std::int64_t step;         // numbers from row to row
  std::int64_t count;
  std::int64_t column;
  // What to prefetch meanwhile: as much as is read, from here on; or null.
  const std::byte* ahead;
  const std::byte* beside = nullptr;  // if not null: half of it from there, and half from here
  Scales<C, Number> scales{};
};

// What is prefetched: nothing, or memory in one place or in two.
enum class Ahead { nothing, one, two };

template <Ahead kAhead, int Q, int C, class Number, class Part>
HWY_INLINE void add_rows_inline(const Sums<Q>& sums, const Rows<C, Number>& rows, Part part) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t kLine = 64;
  const std::int64_t read = C * lanes * static_cast<std::int64_t>(sizeof(Number));  // of a row
  V acc[Q][C];
  if (sums.rescale == nullptr) {
    HWY_UNROLL(8) for (int j = 0; j < Q; ++j) {
      HWY_UNROLL(8) for (int c = 0; c < C; ++c) acc[j][c] = hn::Zero(d);
    }
  } else {
    HWY_UNROLL(8) for (int j = 0; j < Q; ++j) {
      const V rescale = hn::Set(d, sums.rescale[j]);
      HWY_UNROLL(8) for (int c = 0; c < C; ++c) {
        acc[j][c] = hn::Mul(rescale, load(d, sums.out[j] + rows.column + c * lanes, part));
      }
    }
  }
  const float* weights[Q];
  HWY_UNROLL(8) for (int j = 0; j < Q; ++j) weights[j] = sums.weights[j];
  const Number* at[C];
  HWY_UNROLL(8) for (int c = 0; c < C; ++c) at[c] = rows.vectors[c];
  const std::int64_t step = rows.step;
  const std::int64_t count = rows.count;
  const std::byte* ahead = rows.ahead;
  [[maybe_unused]] const std::byte* beside = rows.beside;
  [[maybe_unused]] V scale[C];
  if constexpr (std::is_same_v<Number, KeyLevel>) {
    HWY_UNROLL(8) for (int c = 0; c < C; ++c) scale[c] = numbers(rows.scales.at[c]);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (kAhead == Ahead::one) {
      for (std::int64_t line = 0; line < read; line += kLine) __builtin_prefetch(ahead + line);
      ahead += read;
    }
    if constexpr (kAhead == Ahead::two) {  // much, so into the second-level cache
      for (std::int64_t line = 0; line < read / 2; line += kLine) {
        __builtin_prefetch(ahead + line, 0, 2);
        __builtin_prefetch(beside + line, 0, 2);
      }
      ahead += read / 2;
      beside += read / 2;
    }
    V number[C];
    HWY_UNROLL(8) for (int c = 0; c < C; ++c) number[c] = numbers(at[c] + i * step, part);
    if constexpr (std::is_same_v<Number, ValueLevel>) {
      HWY_UNROLL(8) for (int c = 0; c < C; ++c) {
        scale[c] =
            c % kVectorsOfScale == 0 ? scale_of_row(rows.scales.at[c], i * step) : scale[c - 1];
      }
    }
    if constexpr (kHasScales<Number>) {
      HWY_UNROLL(8) for (int c = 0; c < C; ++c) number[c] = hn::Mul(number[c], scale[c]);
    }
    HWY_UNROLL(8) for (int j = 0; j < Q; ++j) {
      const V weight = hn::Set(d, weights[j][i]);
      HWY_UNROLL(8)
      for (int c = 0; c < C; ++c) acc[j][c] = hn::MulAdd(weight, number[c], acc[j][c]);
    }
  }
  const V factor = hn::Set(d, sums.factor);
  HWY_UNROLL(8) for (int j = 0; j < Q; ++j) {
    HWY_UNROLL(8) for (int c = 0; c < C; ++c) {
      store(hn::Mul(acc[j][c], factor), d, sums.out[j] + rows.column + c * lanes, part);
    }
  }
}

// One loop for keys and values, as it is not inlined: what prefetches in a processor follows the
// addresses of each instruction, and runs ahead best where one asks for all of a cache in its
// order.
template <Ahead kAhead, int Q, int C, class Number, class Part>
HWY_NOINLINE void add_rows_ahead(const Sums<Q>& sums, const Rows<C, Number>& rows, Part part) {
  add_rows_inline<kAhead>(sums, rows, part);
}

// So many queries of a narrow cache keep arithmetic busy longer than memory: calls would cost more
// than they gain.
template <int Q, class Number>
constexpr bool kArithmeticBound = (Q >= (kManyRegisters ? 7 : 3)) && kIsNarrow<Number>;

template <int Q, int C, class Number, class Part>
HWY_INLINE void add_rows(const Sums<Q>& sums, const Rows<C, Number>& rows, Part part) {
  if (rows.ahead == nullptr) return add_rows_inline<Ahead::nothing>(sums, rows, part);
  if constexpr (Q <= kTwoPlaces<Number>) {
    if (rows.beside != nullptr) return add_rows_ahead<Ahead::two>(sums, rows, part);
  }
  if constexpr (kArithmeticBound<Q, Number>) {
    add_rows_inline<Ahead::one>(sums, rows, part);
  } else {
    add_rows_ahead<Ahead::one>(sums, rows, part);
  }
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
