#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tandem::study {

// Runs `work` for every number of `todo` in `processes` processes, since SimGrid serves one at a
// time, and passes each answer, one line, to `receive` in this process on arrival. An exception of
// `work` ends its process; all processes end with this one. Throws Error, after all other answers
// have arrived, if a process died.
void run_in_processes(const std::vector<std::size_t>& todo, std::size_t processes,
                      const std::function<std::string(std::size_t)>& work,
                      const std::function<void(std::size_t, const std::string&)>& receive);

}  // namespace tandem::study
