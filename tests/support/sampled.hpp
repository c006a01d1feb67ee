#pragma once

#include <cstdlib>

// Where sanitizers watch, a case takes some 20 times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // GCC's
#define TANDEM_IS_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)  // clang's
#define TANDEM_IS_SANITIZED
#endif
#endif

namespace tandem::testing {

#ifdef TANDEM_IS_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Whether cases take that long: with sanitizers, and on a processor that is emulated, which the
// environment says.
inline bool cases_are_slow() {
  static const bool slow = kSanitized || std::getenv("TANDEM_SLOW_CASES") != nullptr;
  return slow;
}

// Whether a loop over many cases takes this one: all of them, where they are slow the first of
// every `n`. Nested loops want an `n` that shares no factor with their lengths, so that each value
// of each comes. One object a test.
class Sampled {
 public:
  explicit Sampled(int n) : n_(n) {}
  [[nodiscard]] bool operator()() { return !cases_are_slow() || case_++ % n_ == 0; }

 private:
  int n_;
  int case_ = 0;
};

}  // namespace tandem::testing
