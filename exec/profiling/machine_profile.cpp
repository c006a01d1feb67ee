#include "exec/profiling/machine_profile.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "model/base/quantity_text.hpp"
#include "model/base/range.hpp"
#include "model/graph/memory.hpp"

namespace tandem::exec {
namespace {

std::string disk_text(const DiskRate& disk, const DiskProfileOptions& asked) {
  return "disk: " + to_text(model::Bytes{static_cast<double>(disk.file_bytes)}) + " in " +
         asked.folder.string() + ", read " + std::to_string(disk.passes) + " times in pieces of " +
         to_text(model::Bytes{static_cast<double>(asked.read_bytes)}) + " (" + disk.method + "), " +
         to_text(disk.slowest) + " to " + to_text(disk.fastest);
}

}  // namespace

std::uint64_t streamed_block_bytes(const model::Transformer& transformer) {
  constexpr double kLeast = 64.0 * 1024;
  constexpr double kMost = 64.0 * 1024 * 1024;
  const auto all = [](std::int64_t count) {
    return model::Range{0, static_cast<std::int32_t>(count)};
  };
  const double layer = model::weight_bytes(
      transformer, {{0, 1}, all(transformer.heads), all(transformer.intermediate), false, false});
  return static_cast<std::uint64_t>(std::clamp(layer / 2.0, kLeast, kMost));
}

std::vector<model::DeviceProfile> measure_machine(const model::Transformer& transformer,
                                                  ProfileOptions options,
                                                  const std::optional<DiskProfileOptions>& disk) {
  // First, as a disk may be full; its weights are not in memory yet.
  const auto start = std::chrono::steady_clock::now();
  std::optional<DiskRate> rate;
  if (disk) rate = measure_disk(*disk);
  options.seconds -=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<model::DeviceProfile> profiles = measure_profiles(transformer, options);
  for (model::DeviceProfile& profile : profiles) {
    if (!rate) continue;
    profile.disk_bandwidth = rate->rate;
    profile.disk_spread = rate->spread;
    profile.source += "; " + disk_text(*rate, *disk);
  }
  return profiles;
}

}  // namespace tandem::exec
