#include "exec/profiling/stream_bytes.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "exec/machine/available_memory.hpp"
#include "model/graph/memory.hpp"

namespace tandem::exec {

double stream_bytes_of(const model::Transformer& transformer, double wanted) {
  constexpr double kCaches = 4.0;
  constexpr double kAssumed = 32.0 * 1024 * 1024;  // where the kernel does not tell
  constexpr double kMost = 512.0 * 1024 * 1024;
  constexpr double kPartOfMemory = 1.0 / 8.0;
  if (wanted > 0.0) return wanted;
  const auto all = [](std::int64_t count) {
    return model::Range{0, static_cast<std::int32_t>(count)};
  };
  const double layers =
      model::weight_bytes(transformer, {all(transformer.layers), all(transformer.heads),
                                        all(transformer.intermediate), false, false});
  const auto cache = static_cast<double>(sysconf(_SC_LEVEL3_CACHE_SIZE));
  return std::min({layers, kCaches * (cache > 0.0 ? cache : kAssumed), kMost,
                   kPartOfMemory * available_memory().bytes});
}

}  // namespace tandem::exec
