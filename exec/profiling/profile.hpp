#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "exec/kernels/kernel_set.hpp"
#include "model/predict/device_profile.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

struct ProfileOptions {
  // Each gives a profile of its own.
  std::vector<int> threads{1};
  KernelSet kernels = default_kernel_set();
  // About how long it takes, the making of weights included. It is exceeded only by what messages,
  // single tokens and the first two of `rows` take, once each.
  double seconds = 25.0;
  // Weights between two uses of the same; 0: as stream_bytes_of() chooses. Less than a run's
  // measures a cache, not memory.
  double stream_bytes = 0.0;
  // Of weights, and of caches, that are measured besides f32: each for an equal part of every
  // round, f32 for half of that if there are others.
  std::vector<model::WeightFormat> formats{};
  std::vector<model::CacheFormat> caches{};
  // Prompts that are measured, ascending, from the third on only while time lasts, and those that
  // refine them. Products take as long for any rows that fill as many vectors (of up to 16): the
  // finer ones are ends of such steps.
  std::vector<std::int32_t> rows{32, 128, 512};
  std::vector<std::int32_t> finer{2, 4, 8, 16, 17, 33, 48, 49, 64, 72, 256};
  // Called between steps; what it throws ends the measurement. May be empty.
  std::function<void()> check{};
};

// This machine's seconds per streamed byte and overhead of each task kind, one profile for each
// number of threads: medians over moments, in up to five rounds over all formats and threads, of
// steps of the executor itself on layers of `transformer`'s sizes and of a quarter of its heads and
// columns (at most 32 million elements a layer, larger ones extrapolated in columns), prompts of
// `rows` through one layer, of models that caches could hold each after a pause, and single tokens
// after several contexts through all; transfer from messages over a loopback connection. CPU time
// of the thread with one thread, else time on the wall. Independent of any emulation. Weights take
// at most 0.7 GB, or an eighth of the memory that is available and two layers of each size; throws
// Error if what is needed at the least exceeds three quarters of that memory. Throws logic_error
// unless threads and rows are at least 1, and rows two or more, ascending.
[[nodiscard]] std::vector<model::DeviceProfile> measure_profiles(
    const model::Transformer& transformer, const ProfileOptions& options);

}  // namespace tandem::exec
