#pragma once

// Flags of commands that compute on the devices of a plan.

#include "cli/flags/options.hpp"

namespace tandem::cli {

inline constexpr Flag kWeightsFlag{"weights", "M",
                                   "Hugging Face folder, GGUF file, or known name (required)"};
inline constexpr Flag kHostsFileFlag{"hosts", "FILE",
                                     "where the devices listen: lines 'device-name host:port'"};
inline constexpr Flag kKeyFlag{"key", "FILE", "shared key of the devices (with --hosts)"};
inline constexpr Flag kMasterThreadsFlag{
    "threads", "N",
    "computing threads of the master [its profile's, if the plan has one, but at most all cores; "
    "else all cores; 1 if emulated]"};
inline constexpr Flag kSlicesFlag{"cache", "DIR",
                                  "where sliced weights are kept [~/.cache/tandem]"};

}  // namespace tandem::cli
