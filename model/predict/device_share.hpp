#pragma once

// The share of a device that tandem may use, so that the rest stays free for its owner.

#include <cstdint>
#include <span>
#include <string>

#include "model/cluster/cluster.hpp"
#include "model/predict/device_profile.hpp"

namespace tandem::model {

// What a platform, or a flag, states of one device.
struct DeviceShare {
  double share = 1.0;      // of memory and of cores, in (0, 1]
  std::int64_t cores = 1;  // of the whole device
  bool operator==(const DeviceShare&) const = default;
};

// Returns the cores, and computing threads, of a share s of C cores: t = max(1, floor(s C)). A core
// is never divided: with s C < 1 one core computes, and the share limits memory alone.
[[nodiscard]] std::int64_t cores_of(const DeviceShare& share);

// Returns `whole`, a device with share.cores cores, within the share:
//   memory' = s M        t = cores_of(share)        cores' = t
//   flop rate' = F t / C        memory bandwidth' = B t / C
//   s: share.share   C: share.cores   M, F, B: of the whole device
// The flop rate of dense products is proportional to the cores. The bandwidth that t cores draw is
// concave in t and 0 at 0, so it is at least B t / C: this is a lower bound. Links and the disk are
// not limited. A device that is emulated (slowdown other than 1) is slowed down C / t times more
// instead of computing with fewer threads. A share of 1 changes nothing.
[[nodiscard]] Device with_share(Device whole, const DeviceShare& share);

// Returns the profile within the share from those measured on the whole device: the one with most
// of at most t = cores_of(share) threads, which a run within the share can have; without one, that
// with the fewest threads T > t, with computing T / t times as slow (an upper bound by the same
// argument) and t threads. A profile that does not state its threads is taken to be of all cores.
[[nodiscard]] DeviceProfile with_share(std::span<const DeviceProfile> measured,
                                       const DeviceShare& share);

// Returns `text` as a share. Throws Error, beginning with `subject`, unless it is a number above 0
// and at most 1.
[[nodiscard]] double parse_share(const std::string& text, const std::string& subject);

}  // namespace tandem::model
