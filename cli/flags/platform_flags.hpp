#pragma once

// `--hosts` and `--default`: how a platform file is read.

#include <string>

#include "cli/flags/options.hpp"
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

// What `--hosts`, `--default` and, if the command has it, `--devices` say. Throws Usage for a
// malformed or repeated default.
[[nodiscard]] sim::PlatformOptions platform_options(const Options& options,
                                                    bool has_devices = false);

// Returns one line on standard values that the file of `platform` does not state and on what was
// ignored in it; empty if there are none.
[[nodiscard]] std::string defaults_remark(const sim::Platform& platform);

}  // namespace tandem::cli
