#pragma once

// What a thread has in its caches when it comes from computing. Private to exec/.

#include <numeric>
#include <span>

#include "exec/weights/files/aligned_buffer.hpp"
#include "model/base/units.hpp"

namespace tandem::exec {

class WalkedWeights {
 public:
  explicit WalkedWeights(model::Bytes bytes) : memory_(static_cast<std::size_t>(bytes.value())) {
    memory_.populate();
  }
  // Reads all of it.
  void walk() {
    const std::span<const float> floats = memory_.floats();
    sum_ = sum_ + std::accumulate(floats.begin(), floats.end(), 0.0F);
  }

 private:
  AlignedBuffer memory_;
  volatile float sum_ = 0.0F;  // the compiler must not leave the walk out
};

}  // namespace tandem::exec
