#pragma once

// The profiles that a worker has measured of its machine, kept in its cache folder.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "exec/kernels/kernel_set.hpp"
#include "exec/transport/wire.hpp"
#include "model/predict/device_profile.hpp"

namespace tandem::exec {

struct WorkerMachine {
  std::filesystem::path cache_dir;
  std::string program;  // version
  int threads = 1;
  KernelSet kernels = default_kernel_set();
};

// The profile that `order` asks for: the kept one, or one that is measured now and kept. Kept
// profiles are in `profiles`/ of the cache folder, by processor, instruction sets, kernel
// generation, program, threads, model geometry and formats. `order.measure` measures in any case.
// What cannot be read there is measured again, what cannot be written is not kept. `check` is
// called between steps; what it throws ends the measurement. Throws Error if the model or a format
// is none (subject, value, expected, remedy), or the disk cannot be measured.
[[nodiscard]] model::DeviceProfile machine_profile(const WorkerMachine& machine,
                                                   const ProfileOrder& order,
                                                   const std::function<void()>& check);

}  // namespace tandem::exec
