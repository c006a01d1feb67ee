#pragma once

// A profile with the disk's rate in it: what `tandem profile` writes and a worker gives to
// `tandem discover`.

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/profiling/profile.hpp"
#include "exec/profiling/profile_disk.hpp"

namespace tandem::exec {

// Of the time of a profile, what its disk may take unless somebody names the file's size.
inline constexpr double kDiskPart = 0.25;

// About a block of the model's weights, as a device streams them: half a layer.
[[nodiscard]] std::uint64_t streamed_block_bytes(const model::Transformer& transformer);

// measure_profiles(), and with `disk` measure_disk() before it, within options.seconds in all.
[[nodiscard]] std::vector<model::DeviceProfile> measure_machine(
    const model::Transformer& transformer, ProfileOptions options,
    const std::optional<DiskProfileOptions>& disk);

}  // namespace tandem::exec
