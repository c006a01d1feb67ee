#include "exec/emulation/device_place.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

namespace tandem::exec {

bool enter(const DevicePlace& place) noexcept {
  if (!place.memory_group.empty()) {
    const int group = ::open(place.memory_group.c_str(), O_WRONLY | O_CLOEXEC);
    if (group < 0) return false;
    constexpr char kItself = '0';
    const bool moved = ::write(group, &kItself, 1) == 1;
    ::close(group);
    if (!moved) return false;
  }
  return place.network < 0 || ::setns(place.network, CLONE_NEWNET) == 0;
}

}  // namespace tandem::exec
