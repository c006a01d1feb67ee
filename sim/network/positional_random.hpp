#pragma once

// Random numbers by position, independent of the order of drawing. Private to sim/.

#include <cstdint>

namespace tandem::sim {

// Returns a bijective hash of 64 bits: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA
// 2014).
constexpr std::uint64_t scattered(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

// Returns number `index` of stream `stream` of `seed`: uniform in [0, 1), 53 bits.
constexpr double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const std::uint64_t bits = scattered(scattered(scattered(seed) ^ stream) ^ index);
  return static_cast<double>(bits >> 11U) * 0x1p-53;
}

}  // namespace tandem::sim
