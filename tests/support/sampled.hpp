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

// Whether loops that take a minute anywhere run whole, which the environment says: .ci/full does.
inline bool all_cases_are_wanted() {
  static const bool wanted = std::getenv("TANDEM_ALL_CASES") != nullptr;
  return wanted;
}

// Whether a loop over many cases takes this one: the first of every `n` where cases are slow, or,
// of a loop that `takes_minutes`, unless all are wanted; else all of them. Nested loops want an `n`
// that shares no factor with their lengths, so that each value of each comes. One object a test.
class Sampled {
 public:
  explicit Sampled(int n, bool takes_minutes = false)
      : n_(cases_are_slow() || (takes_minutes && !all_cases_are_wanted()) ? n : 1) {}
  [[nodiscard]] bool operator()() { return case_++ % n_ == 0; }

 private:
  int n_;
  int case_ = 0;
};
inline constexpr bool kTakesMinutes = true;  // for Sampled

}  // namespace tandem::testing
