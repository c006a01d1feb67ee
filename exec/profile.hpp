#pragma once

#include <cstdint>
#include <vector>

#include "model/device_profile.hpp"
#include "model/transformer.hpp"

namespace tandem::exec {

struct ProfileOptions {
  int threads = 1;
  double seconds = 20.0;  // about how long to measure
  std::vector<std::int32_t> rows{1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
};

// This machine's seconds per streamed byte and overhead of each task kind, medians of repeated
// runs of the executor's own kernels on matrices of `shape`'s sizes, weights well beyond the
// last-level cache; transfer from messages over a loopback connection. Independent of any
// emulation.
[[nodiscard]] model::DeviceProfile measure_profile(const model::Transformer& shape,
                                                   const ProfileOptions& options);

}  // namespace tandem::exec
