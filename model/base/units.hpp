#pragma once

// Strong types for the five dimensions that cross module boundaries. Each wraps one double in base
// SI units, is built explicitly, and has only the operators that physics allows.

#include <compare>
#include <cstdint>

namespace tandem::model {

template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}
  [[nodiscard]] constexpr double value() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity{a.value_ + b.value_};
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity{a.value_ - b.value_};
  }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity{a.value_ * k}; }
  friend constexpr Quantity operator*(double k, Quantity a) { return a * k; }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity{a.value_ / k}; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  double value_ = 0.0;
};

using Seconds = Quantity<struct SecondsTag>;
using Bytes = Quantity<struct BytesTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using Flops = Quantity<struct FlopsTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return Seconds{b.value() / r.value()}; }
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return Seconds{f.value() / r.value()}; }
constexpr Bytes operator*(BytesPerSecond r, Seconds s) { return Bytes{r.value() * s.value()}; }
constexpr Bytes operator*(Seconds s, BytesPerSecond r) { return r * s; }
constexpr BytesPerSecond operator/(Bytes b, Seconds s) {
  return BytesPerSecond{b.value() / s.value()};
}
constexpr FlopsPerSecond operator/(Flops f, Seconds s) {
  return FlopsPerSecond{f.value() / s.value()};
}

inline namespace literals {
constexpr Seconds operator""_s(long double v) { return Seconds{static_cast<double>(v)}; }
constexpr Seconds operator""_ms(unsigned long long v) {
  return Seconds{static_cast<double>(v) * 1e-3};
}
constexpr Bytes operator""_B(unsigned long long v) { return Bytes{static_cast<double>(v)}; }
constexpr Bytes operator""_KiB(unsigned long long v) {
  return Bytes{static_cast<double>(v) * 1024.0};
}
constexpr Bytes operator""_MiB(unsigned long long v) {
  return Bytes{static_cast<double>(v) * 1024.0 * 1024.0};
}
constexpr Bytes operator""_GiB(unsigned long long v) {
  return Bytes{static_cast<double>(v) * 1024.0 * 1024.0 * 1024.0};
}
// Bits on the wire.
constexpr BytesPerSecond operator""_Mbps(unsigned long long v) {
  return BytesPerSecond{static_cast<double>(v) * 1e6 / 8.0};
}
constexpr BytesPerSecond operator""_Gbps(unsigned long long v) {
  return BytesPerSecond{static_cast<double>(v) * 1e9 / 8.0};
}
constexpr FlopsPerSecond operator""_Gflops(unsigned long long v) {
  return FlopsPerSecond{static_cast<double>(v) * 1e9};
}
}  // namespace literals

}  // namespace tandem::model
