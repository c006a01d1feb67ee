#pragma once

// How much of anything tandem takes, from a platform file as from a plan: what one command writes,
// the others read. Far beyond any platform that exists, and close enough that no sum or product of
// what passes leaves the range of a double, or fills memory.

#include <cstddef>
#include <cstdint>

namespace tandem::model::limits {

inline constexpr std::size_t kDevices = 4096;
inline constexpr std::int64_t kLayers = 100000;   // of a model; each is looked at by itself
inline constexpr std::size_t kNetwork = 100000;   // routers, links, routes
inline constexpr std::size_t kHops = 1000;        // links of one route
inline constexpr std::size_t kChanges = 10000;    // of one device or link, during a run
inline constexpr std::size_t kLayerRuns = 1000;   // of a device
inline constexpr std::int64_t kCores = 65536;     // of a device
inline constexpr std::size_t kRatePoints = 1000;  // of a task kind in a profile
inline constexpr std::size_t kPlanBytes = std::size_t{16} << 20U;  // of its JSON

// In SI units. Of what may be none at all (latency, jitter, background traffic, a disk), 0 is fine.
inline constexpr double kLeastRate = 1.0;  // flops or bytes a second
inline constexpr double kMostRate = 1e21;
inline constexpr double kMostBytes = 1e18;
inline constexpr double kMostSeconds = 1e6;   // of a latency, a jitter, an overhead, a byte
inline constexpr double kMostTime = 1e9;      // of a change
inline constexpr double kLeastFactor = 1e-6;  // slowdown and changes of speed
inline constexpr double kMostFactor = 1e6;
inline constexpr double kMostDeviation = 10.0;  // relative, of a profile's times
// Intensity: rows that share a byte, from one rate over another.
inline constexpr double kLeastIntensity = 1e-24;
inline constexpr double kMostIntensity = 1e24;

}  // namespace tandem::model::limits
