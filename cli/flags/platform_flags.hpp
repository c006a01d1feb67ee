#pragma once

// `--hosts`, `--default` and `--share`: how a platform file is read.

#include <map>
#include <string>
#include <vector>

#include "cli/flags/options.hpp"
#include "model/cluster/cluster.hpp"
#include "sim/platform/platform.hpp"

namespace tandem::cli {

inline constexpr Flag kHostsFlag{
    "hosts", "PATTERNS",
    "hosts of the platform to read: names, comma-separated, * and ? match any [all]"};
inline constexpr Flag kDefaultFlag{
    "default", "NAME=VALUE",
    "where the file states none: memory, memory_bandwidth or disk_bandwidth of hosts, as "
    "memory=16GiB [memory=8GiB, memory_bandwidth=10GBps, no disk]",
    true};

inline constexpr Flag kShareFlag{
    "share", "HOST=S",
    "use no more than this share of a host's memory and cores, above 0 and at most 1, as "
    "laptop=0.5 [tandem:share of the platform, else 1]",
    true};

// What `--hosts`, `--default` and, if the command has devices, `--devices` and `--share` say.
// Throws Usage for a malformed or repeated default or share, Error for a share out of range.
[[nodiscard]] sim::PlatformOptions platform_options(const Options& options,
                                                    bool has_devices = false);

// What `--default` says. Throws Usage for a malformed or repeated one.
[[nodiscard]] std::map<std::string, std::string> platform_defaults(const Options& options);

// Returns what to say of a platform that is read to predict with its devices in `used`: the three
// remarks below that are not empty, and those of the reading.
[[nodiscard]] std::vector<std::string> platform_remarks(const sim::Platform& platform,
                                                        const model::Cluster& used);

// Returns one line on standard values that the file of `platform` does not state; empty if there
// are none.
[[nodiscard]] std::string defaults_remark(const sim::Platform& platform);

// Returns one line on the slowest device if no computer of today is so slow; empty otherwise.
[[nodiscard]] std::string speed_remark(const model::Cluster& cluster);

// Returns one line on the first link of an edge that is slower than any network, as where a number
// of the file lacks its unit; empty if there is none.
[[nodiscard]] std::string link_remark(const model::Cluster& cluster);

}  // namespace tandem::cli
