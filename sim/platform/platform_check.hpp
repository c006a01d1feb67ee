#pragma once

// Validation of a platform file by SimGrid itself. Private to sim/.

#include <optional>
#include <string>
#include <string_view>

#include "model/cluster/cluster.hpp"

namespace tandem::sim {

// Loads `text` (hidden_from_simgrid applied) in a child process with SimGrid, and compares its
// routes between devices with those of `cluster`: all pairs of up to 64 devices, a fixed sample
// beyond. Returns the first pair with another route in SimGrid, as of two equally short ones, with
// both routes; nothing if all are equal. Throws Error naming `source` with SimGrid's message, or
// with a host or link that SimGrid reads otherwise.
[[nodiscard]] std::optional<std::string> check_with_simgrid(std::string_view text,
                                                            const std::string& source,
                                                            const model::Cluster& cluster);

}  // namespace tandem::sim
