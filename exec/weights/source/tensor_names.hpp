#pragma once

// What Hugging Face's folders call the weights of each family, and in which form they store them:
// one row a family (tensor_names.cpp).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// The weights that kernels know. Order is no matter of any format.
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
  attention_sum_norm,  // of what attention adds up to
  ffn_sum_norm,
};

// Where a weight is stored.
struct TensorPlace {
  std::string tensor;        // with the prefix that the family's own class writes
  std::int64_t first = 0;    // the weight's first output in the tensor
  std::int64_t outputs = 0;  // of the whole tensor: more than the weight's where several are fused
  bool transposed = false;   // [in, out] instead of [out, in] (GPT-2's Conv1D)
  bool less_one = false;     // stored as w, meant is 1 + w (Gemma's norms)
};

// `outputs`: of the weight itself, all heads and columns. `layer`: -1 outside the layers. Throws
// Error if the family's tensors are not known: it can be planned and simulated only.
[[nodiscard]] TensorPlace place_of(const model::Transformer& transformer, WeightName weight,
                                   std::int32_t layer, std::int64_t outputs);

// Other names of the tensor that folders have: without the prefix or with another one (a model
// saved without its head, or within another class), and the norms' names of BERT's first files.
[[nodiscard]] std::vector<std::string> other_names(const std::string& tensor);
// A stored name without the prefix that folders of `family` may have.
[[nodiscard]] std::string_view without_prefix(std::string_view tensor, model::Family family);

}  // namespace tandem::exec
