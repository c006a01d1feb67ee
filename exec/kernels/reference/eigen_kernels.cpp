#include "exec/kernels/reference/eigen_kernels.hpp"

#include <string>

#include "exec/kernels/kernel_table.hpp"

namespace tandem::exec {
namespace {

// "Eigen 3.4.0, SSE, SSE2".
std::string compiled_for() {
  return "Eigen " + std::to_string(EIGEN_WORLD_VERSION) + "." +
         std::to_string(EIGEN_MAJOR_VERSION) + "." + std::to_string(EIGEN_MINOR_VERSION) + ", " +
         Eigen::SimdInstructionSetsInUse();
}

}  // namespace

const Kernels& eigen_kernels() {
  static constexpr Kernels kEigen{.set = KernelSet::eigen,
                                  .instruction_sets = compiled_for,
                                  .product = reference::product,
                                  .attend = reference::attend,
                                  .weigh_keys = reference::weigh_keys,
                                  .merge = reference::merge,
                                  .rms_norm = reference::rms_norm,
                                  .layer_norm = reference::layer_norm,
                                  .activate = reference::activate,
                                  .add = reference::add,
                                  .add_scaled = reference::add_scaled,
                                  .gate_with = reference::gate_with,
                                  .multiply_with = reference::multiply_with,
                                  .scale_by = reference::scale_by,
                                  .soft_cap = reference::soft_cap,
                                  .exp_sum = reference::exp_sum,
                                  .rotate = reference::rotate};
  return kEigen;
}

}  // namespace tandem::exec
