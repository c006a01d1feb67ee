#pragma once

#include <sys/resource.h>

namespace tandem::serve {

// Gives this thread, and the threads that it begins, the lowest priority: computing of devices
// comes first. Linux only has priorities of threads.
inline void lower_priority() {
  constexpr int kLowest = 19;
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, kLowest));
}

}  // namespace tandem::serve
