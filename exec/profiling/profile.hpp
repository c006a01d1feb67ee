#pragma once

#include <cstdint>
#include <vector>

#include "exec/kernels/kernel_set.hpp"
#include "model/predict/device_profile.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// Rows up to which a step is taken to be new tokens of some sequences, beyond to be a prompt.
inline constexpr std::int32_t kNewTokenRows = 8;

struct ProfileOptions {
  int threads = 1;
  KernelSet kernels = default_kernel_set();
  // About how long it takes, the making of weights included. If it is too short for all of `rows`,
  // the largest are left out, which the profile's source says. It is exceeded only by what the
  // least takes: single tokens, on weights of at most twice the last-level cache.
  double seconds = 20.0;
  // Weights between two uses of the same; 0: those of `transformer`, and of a large one eight times
  // the last-level cache, or as much less as `seconds` demand, but twice. Less than a run's
  // measures a cache, not memory.
  double stream_bytes = 0.0;
  // Of weights that are measured besides f32, and whether attention over an F16 cache is: each for
  // an equal part of `seconds`.
  std::vector<model::WeightFormat> formats{};
  bool half_cache = false;
  // Products take as long for any rows that fill as many vectors (of up to 16): short prompts are
  // measured at both ends of a step, a longer one in its middle.
  std::vector<std::int32_t> rows{1, 2, 4, 8, 16, 17, 32, 33, 48, 49, 64, 72, 128, 256, 512};
};

// This machine's seconds per streamed byte and overhead of each task kind: means, but for the
// longest hundredth, over steps of the executor itself on layers of `transformer`'s sizes and of a
// quarter of its heads and columns (at most 256 MiB a layer), prompts of `rows`, of models that
// caches could hold each after a pause, and single tokens after several contexts; transfer from
// messages over a loopback connection. CPU time of the thread with one thread, else time on the
// wall. Independent of any emulation. Throws logic_error unless threads and rows are at least 1.
[[nodiscard]] model::DeviceProfile measure_profile(const model::Transformer& transformer,
                                                   const ProfileOptions& options);

}  // namespace tandem::exec
