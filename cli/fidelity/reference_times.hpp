#pragma once

#include "advice/fidelity/recording.hpp"
#include "exec/emulation/drift.hpp"

namespace tandem::cli {

// Times the reference kernel of emulated runs between the parts of a sitting: by one thread's CPU
// time, and by the clock on all cores at once, which other work on this machine lengthens. A
// measurement takes some 0.3 s.
class ReferenceClock {
 public:
  void sample();
  [[nodiscard]] const study::ReferenceTimes& times() const { return times_; }

 private:
  exec::ReferenceKernel kernel_;
  study::ReferenceTimes times_;
};

}  // namespace tandem::cli
