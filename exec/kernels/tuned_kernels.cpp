#include "exec/kernels/instruction_sets.hpp"
#include "exec/kernels/kernel_table.hpp"
#include "exec/kernels/rowwise.hpp"
#include "exec/kernels/weight_product.hpp"

namespace tandem::exec {

const Kernels& tuned_kernels() {
  static constexpr Kernels kTuned{.set = KernelSet::tuned,
                                  .instruction_sets = exec::instruction_sets,
                                  .product = exec::product,
                                  .attend = exec::attend,
                                  .weigh_keys = exec::weigh_keys,
                                  .merge = exec::merge,
                                  .rms_norm = exec::rms_norm,
                                  .layer_norm = exec::layer_norm,
                                  .activate = exec::activate,
                                  .add = exec::add,
                                  .add_scaled = exec::add_scaled,
                                  .gate_with = exec::gate_with,
                                  .multiply_with = exec::multiply_with,
                                  .scale_by = exec::scale_by,
                                  .soft_cap = exec::soft_cap,
                                  .exp_sum = exec::exp_sum,
                                  .rotate = exec::rotate};
  return kTuned;
}

}  // namespace tandem::exec
