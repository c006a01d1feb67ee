#pragma once

// The kernels that compute tasks call, as one table. Every set of kernels reads and writes the same
// operands in the same layouts, so a device computes with either.

#include <cstdint>
#include <string>

#include "exec/kernels/attention.hpp"
#include "exec/kernels/kernel_set.hpp"
#include "exec/kernels/weight_operands.hpp"
#include "model/transformer/architecture.hpp"

namespace tandem::exec {

// The header named above its members documents what a kernel computes. All are thread-safe.
struct Kernels {
  KernelSet set = KernelSet::tuned;
  // Returns the instruction sets, for results.
  std::string (*instruction_sets)() = nullptr;

  // weight_product.hpp: every projection, the FFN's matrices and the LM head
  void (*product)(const WeightProduct& p) = nullptr;

  // attention.hpp
  void (*attend)(const Attention& a) = nullptr;
  void (*weigh_keys)(const Attention& a, float* sums, std::int64_t stride) = nullptr;
  void (*merge)(const AttendedPart& from, const AttendedPart& into, std::int64_t heads,
                std::int64_t head_dim) = nullptr;

  // rowwise.hpp
  void (*rms_norm)(const float* x, const float* weight, std::int64_t n, float epsilon,
                   float* y) = nullptr;
  void (*layer_norm)(const float* x, const float* weight, const float* bias, std::int64_t n,
                     float epsilon, float* y) = nullptr;
  void (*activate)(model::Activation activation, const float* bias, std::int64_t n,
                   float* y) = nullptr;
  void (*add)(const float* x, std::int64_t n, float* y) = nullptr;
  void (*add_scaled)(const float* x, float scale, std::int64_t n, float* y) = nullptr;
  void (*gate_with)(const float* up, std::int64_t n, float* gate) = nullptr;
  void (*multiply_with)(const float* up, std::int64_t n, float* gate) = nullptr;
  void (*scale_by)(float scale, std::int64_t n, float* y) = nullptr;
  void (*soft_cap)(float cap, std::int64_t n, float* y) = nullptr;
  float (*exp_sum)(const float* x, float shift, std::int64_t n) = nullptr;
  void (*rotate)(const float* cosine, const float* sine, std::int64_t half, float* x) = nullptr;
};

[[nodiscard]] const Kernels& tuned_kernels();  // defined in tuned_kernels.cpp
[[nodiscard]] const Kernels& eigen_kernels();  // defined in exec/kernels/reference
[[nodiscard]] const Kernels& kernels_of(KernelSet set);

}  // namespace tandem::exec
