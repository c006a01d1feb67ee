#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tandem::study {

// Runs `work` for every number of `todo` in `processes` processes, as SimGrid is used by one at a
// time, and hands each answer, one line, to `receive`, here, as it comes. What `work` throws ends
// its process; the processes end with this one. Throws Error, after all other answers have come, if
// a process died.
void run_in_processes(const std::vector<std::size_t>& todo, std::size_t processes,
                      const std::function<std::string(std::size_t)>& work,
                      const std::function<void(std::size_t, const std::string&)>& receive);

}  // namespace tandem::study
