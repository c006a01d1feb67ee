#pragma once

// How many files, sockets and other descriptors the processes of a run have open at once.

#include <cstddef>
#include <filesystem>

#include "planner/plan/plan.hpp"

namespace tandem::exec {

// At most, of a session of several devices: events that wake threads, what listens, memory that
// emulated devices share, a ring of io_uring, files that are open for a moment.
inline constexpr std::size_t kSessionFiles = 20;

// Returns an upper bound of what the process of device `self` opens beside those for a run of
// `plan`: two channels, a control connection and a connection under way for each other working
// device, and a lock (with a window also the file) for each block of its weights. The master also
// has a pipe and the blocks of every worker, and the files of `weights`, which only it looks at.
[[nodiscard]] std::size_t run_files(const planner::Plan& plan, model::DeviceIndex self,
                                    const std::filesystem::path& weights = {});

// Throws Error (limit, number needed, remedy) unless this process, the master, may open all that it
// will need. `one_machine`: and unless the emulated devices, which inherit its limit, may too.
void check_open_files(const planner::Plan& plan, const std::filesystem::path& weights,
                      bool one_machine);

}  // namespace tandem::exec
