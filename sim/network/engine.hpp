#pragma once

// The set-up of SimGrid. Private to sim/, called in a child process only.

#include <simgrid/s4u/Engine.hpp>

namespace tandem::sim {

// Returns the engine with all network_settings(), without signal handlers, logging errors only.
[[nodiscard]] simgrid::s4u::Engine& make_engine();

}  // namespace tandem::sim
