#pragma once

// Names and forms of each family's weights in Hugging Face's folders: one row a family
// (tensor_names.cpp).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// The weights that kernels use. The order is part of no file format.
enum class WeightName : std::uint8_t {
  embedding,
  attention_norm,
  query,
  key,
  value,
  out,
  ffn_norm,
  gate,
  up,
  down,
  final_norm,
  head,
  positions,
  token_types,
  attention_norm_bias,
  query_bias,
  key_bias,
  value_bias,
  out_bias,
  ffn_norm_bias,
  gate_bias,
  up_bias,
  down_bias,
  final_norm_bias,
  query_norm,          // of each head
  key_norm,            // the same
  attention_sum_norm,  // of the sum of attention
  ffn_sum_norm,
};

// The place of a weight in files.
struct TensorPlace {
  std::string tensor;        // with the prefix that the family's own class writes
  std::int64_t first = 0;    // the weight's first output in the tensor
  std::int64_t outputs = 0;  // of the whole tensor: larger than the weight's if several are fused
  bool transposed = false;   // [in, out] instead of [out, in] (GPT-2's Conv1D)
  bool less_one = false;     // stored as w for 1 + w (Gemma's norms)
};

// `outputs`: of the weight itself, all heads and columns. `layer`: -1 outside the layers. Throws
// Error for a family with unknown tensors, which can be planned and simulated only.
[[nodiscard]] TensorPlace place_of(const model::Transformer& transformer, WeightName weight,
                                   std::int32_t layer, std::int64_t outputs);

// Returns other names of the tensor in folders: without the prefix or with another one (a model
// saved without its head, or within another class), and the norms' names of BERT's first files.
[[nodiscard]] std::vector<std::string> other_names(const std::string& tensor);
// Returns a stored name without the prefix that folders of `family` may have.
[[nodiscard]] std::string_view without_prefix(std::string_view tensor, model::Family family);

}  // namespace tandem::exec
