#pragma once

// One testbed a machine: its process can be found, and ended, by other processes.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "model/base/descriptor.hpp"

namespace tandem::exec {

// Held by the process whose testbed is up. It is a socket without a file (unix(7), abstract), so
// that it is free again when that process ends, however it ends.
class Door {
 public:
  // `platform`: the testbed's name of it. `on_down` is called once, on another thread, when
  // `tandem testbed down` asks for the end. Throws Error if another process has the door.
  Door(const std::string& platform, std::function<void()> on_down);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

 private:
  void serve(const std::stop_token& stop);
  std::string greeting_;
  std::function<void()> on_down_;
  std::vector<model::Descriptor> callers_;  // open until the end, which is how they notice it
  model::Descriptor socket_;                // closed before: who notices may take the door
  model::Descriptor wake_;
  std::jthread thread_;
};

struct TestbedAtDoor {
  pid_t process = 0;
  std::string platform;
};

// Asks the testbed that is up to end, and waits for it. Returns which it was; absent if none is up.
// Throws Error if it is another platform than `platform` (empty: any), or does not end in time.
[[nodiscard]] std::optional<TestbedAtDoor> take_down(const std::string& platform,
                                                     std::chrono::milliseconds patience);

}  // namespace tandem::exec
