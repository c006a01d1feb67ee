#pragma once

// The one place that sets SimGrid up. Private to sim/, called in a child process only.

#include <simgrid/s4u/Engine.hpp>

namespace tandem::sim {

// The engine with every setting of network_settings(), no handler of signals, and errors only.
[[nodiscard]] simgrid::s4u::Engine& make_engine();

}  // namespace tandem::sim
