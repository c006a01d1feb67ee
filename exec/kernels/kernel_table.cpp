#include "exec/kernels/kernel_table.hpp"

#include <stdexcept>

namespace tandem::exec {

const Kernels& kernels_of(KernelSet set) {
  switch (set) {
    case KernelSet::tuned:
      return tuned_kernels();
    case KernelSet::eigen:
      return eigen_kernels();
  }
  throw std::logic_error("kernel set out of range");
}

}  // namespace tandem::exec
