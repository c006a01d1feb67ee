#pragma once

// The differences between families of transformers as data: one row a family (architecture.cpp).
// Work, memory, lowerings, weights and kernels read these fields and never check the family's name.

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::model {

// `llama` covers Llama 1 to 3.3, Yi, TinyLlama, Mistral and InternLM. GLM can be planned and
// simulated, but not executed.
enum class Family : std::uint8_t {
  llama,
  gpt2,
  opt,
  bert,
  distilbert,
  glm,
  qwen2,
  qwen3,
  gemma2,
  gemma3,
  phi3,
  granite,
  smollm3,
  // Families with experts can be planned and simulated, but not executed. `deepseek` covers
  // DeepSeek V2 and V3, Kimi K2 and GLM-5.
  mixtral,
  qwen2_moe,
  qwen3_moe,
  gpt_oss,
  deepseek,
  glm4_moe,
  llama4,
  minimax_m2
};

// rms: x / sqrt(mean(x^2) + epsilon) * weight. layer: (x - mean) / sqrt(variance + epsilon) *
// weight + bias.
enum class Norm : std::uint8_t { rms, layer };

// The place of norms. before: x + f(norm(x)), and a final norm after the last layer. after: norm(x
// + f(x)), computed as "norm in place, then x + f(x)": the norm after one block becomes the norm in
// front of the next, the embedding's norm that of the first block, and the last layer's the final
// norm. So a block's norm is always in front of it, and the only difference is whether the residual
// stream continues from the norm's result.
enum class NormPlace : std::uint8_t { before, after };

// gelu: x Phi(x), by erf. gelu_tanh: GPT-2's approximation (Hendrycks & Gimpel 2016) by tanh.
enum class Activation : std::uint8_t { silu, gelu, gelu_tanh, relu };

enum class Positions : std::uint8_t { rotary, learned };

// The positions that a row attends to: up to its own, or all of its sequence.
enum class Mask : std::uint8_t { causal, full };

// The result of a forward step: the next token, or the hidden state of every row (an encoder).
enum class Outcome : std::uint8_t { token, hidden };

struct Architecture {
  Norm norm = Norm::rms;
  NormPlace norm_place = NormPlace::before;
  bool gated = true;      // FFN: act(x Wgate) * (x Wup); otherwise act(x Wup)
  bool qkv_bias = false;  // one for each row of Wq, Wk, Wv
  bool out_bias = false;  // of Wo, a sum over heads: the device of head 0 adds it
  bool ffn_bias = false;  // of Wup, and of Wdown: the device of column 0 adds it
  // Each head's query and key are normalised before rotation: one weight [head_dim] each.
  bool head_norms = false;
  // Each head has a number that its softmax also sums, as if of one more key.
  bool sinks = false;
  // x + norm(f(norm(x))): the sum of attention and of FFN is normalised where it is added, on every
  // device that continues the residual stream.
  bool sum_norms = false;
  // The embedding is multiplied by sqrt(hidden).
  bool scaled_embedding = false;
  Positions positions = Positions::rotary;
  std::int64_t position_offset = 0;  // learned: position p is row p + offset of the table
  Mask mask = Mask::causal;
  Outcome outcome = Outcome::token;

  // Returns the vectors of a norm: a weight, and for LayerNorm a bias.
  [[nodiscard]] std::int64_t norm_vectors() const { return norm == Norm::layer ? 2 : 1; }
  [[nodiscard]] bool post_norm() const { return norm_place == NormPlace::after; }
  // Returns whether devices without a share in a block need its norms.
  [[nodiscard]] bool norms_everywhere() const { return post_norm() || sum_norms; }
  [[nodiscard]] bool learned() const { return positions == Positions::learned; }
  // False for an encoder: it has no LM head and samples nothing.
  [[nodiscard]] bool generates() const { return outcome == Outcome::token; }
  bool operator==(const Architecture&) const = default;
};

[[nodiscard]] const Architecture& architecture_of(Family family);

[[nodiscard]] std::string_view to_string(Family family);
[[nodiscard]] std::string_view to_string(Activation activation);  // as Hugging Face's ACT2FN has it
// The activation by any of the names that ACT2FN has for it; nothing for another name.
[[nodiscard]] std::optional<Activation> activation_of(std::string_view name);

}  // namespace tandem::model
