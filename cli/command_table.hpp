#pragma once

// The commands of this build, in one of two files: all of them, or those without the simulator.

#include <span>

#include "cli/flags/commands.hpp"

namespace tandem::cli {

// In the order of `tandem --help`.
[[nodiscard]] std::span<const Command> commands();

}  // namespace tandem::cli
