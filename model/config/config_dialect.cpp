#include "model/config/config_dialect.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "model/base/error.hpp"

namespace tandem::model {

namespace {

// The field names that Hugging Face's Llama has and its successors share.
constexpr Dialect llama_dialect(std::string_view model_type, Family family,
                                std::string_view architectures) {
  return {model_type,
          "num_hidden_layers",
          "hidden_size",
          "num_attention_heads",
          "num_key_value_heads",
          "head_dim",
          "intermediate_size",
          "vocab_size",
          "max_position_embeddings",
          "rms_norm_eps",
          1e-6,
          family,
          false,
          Activation::silu,
          architectures,
          "hidden_act",
          "",
          0};
}

// The dialect of Qwen's classes.
constexpr Dialect qwen_dialect(std::string_view model_type, Family family,
                               std::string_view architectures, std::int64_t head_dim) {
  Dialect dialect = llama_dialect(model_type, family, architectures);
  dialect.default_head_dim = head_dim;
  dialect.default_kv_heads = 32;
  return dialect;
}

constexpr Dialect gemma_dialect(std::string_view model_type, Family family,
                                std::string_view architectures, double theta) {
  Dialect dialect = llama_dialect(model_type, family, architectures);
  dialect.tied_by_default = true;
  dialect.default_activation = Activation::gelu_tanh;
  dialect.activation = "hidden_activation";
  dialect.default_theta = theta;
  dialect.default_head_dim = 256;
  dialect.default_kv_heads = 4;
  return dialect;
}

// The text part of multimodal models omits most fields.
constexpr Dialect gemma3_dialect() {
  Dialect dialect = gemma_dialect("gemma3_text", Family::gemma3, "Gemma3ForCausalLM", 1e6);
  dialect.default_heads = 8;
  dialect.default_vocab = 262208;
  dialect.default_context = 131072;
  return dialect;
}

constexpr Dialect ministral3_dialect() {
  Dialect dialect = llama_dialect("ministral3", Family::llama, "Ministral3ForCausalLM");
  dialect.default_epsilon = 1e-5;
  dialect.default_kv_heads = 8;
  dialect.default_head_dim = 128;
  return dialect;
}

constexpr Dialect phi3_dialect() {
  Dialect dialect = llama_dialect("phi3", Family::phi3, "Phi3ForCausalLM");
  dialect.default_epsilon = 1e-5;
  return dialect;
}

constexpr Dialect smollm3_dialect() {
  Dialect dialect = llama_dialect("smollm3", Family::smollm3, "SmolLM3ForCausalLM");
  dialect.tied_by_default = true;
  dialect.default_theta = 2e6;
  dialect.default_kv_heads = 4;
  return dialect;
}

constexpr Dialect with_kv_heads(Dialect dialect, std::int64_t kv_heads, std::int64_t head_dim = 0) {
  dialect.default_kv_heads = kv_heads;
  dialect.default_head_dim = head_dim;
  return dialect;
}

// Families with experts; `width`: the field with the width of an expert.
constexpr Dialect experts_dialect(std::string_view model_type, Family family,
                                  std::string_view architectures,
                                  std::string_view width = "intermediate_size",
                                  std::int64_t kv_heads = 0, std::int64_t head_dim = 0) {
  Dialect dialect =
      with_kv_heads(llama_dialect(model_type, family, architectures), kv_heads, head_dim);
  dialect.intermediate = width;
  if (family == Family::deepseek) dialect.head_dim = "";  // read_latent
  return dialect;
}

constexpr std::string_view kExpertWidth = "moe_intermediate_size";

// Names as in the configuration classes of Hugging Face transformers, chatglm as in THUDM's.
constexpr Dialect kDialects[] = {
    llama_dialect("llama", Family::llama, "LlamaForCausalLM LLaMAForCausalLM"),
    with_kv_heads(llama_dialect("mistral", Family::llama, "MistralForCausalLM"), 8),
    llama_dialect("internlm2", Family::llama, "InternLM2ForCausalLM"),
    {"gpt2", "n_layer", "n_embd", "n_head", "", "", "n_inner", "vocab_size", "n_positions",
     "layer_norm_epsilon", 1e-5, Family::gpt2, true, Activation::gelu_tanh, "GPT2LMHeadModel",
     "activation_function", "", 0},
    {"opt", "num_hidden_layers", "hidden_size", "num_attention_heads", "", "", "ffn_dim",
     "vocab_size", "max_position_embeddings", "", 1e-5, Family::opt, true, Activation::relu,
     "OPTForCausalLM", "activation_function", "", 0},
    {"bert", "num_hidden_layers", "hidden_size", "num_attention_heads", "", "", "intermediate_size",
     "vocab_size", "max_position_embeddings", "layer_norm_eps", 1e-12, Family::bert, true,
     Activation::gelu, "BertModel BertForMaskedLM BertForPreTraining", "hidden_act",
     "type_vocab_size", 2},
    {"distilbert", "n_layers", "dim", "n_heads", "", "", "hidden_dim", "vocab_size",
     "max_position_embeddings", "", 1e-12, Family::distilbert, true, Activation::gelu,
     "DistilBertModel DistilBertForMaskedLM", "activation", "", 0},
    {"chatglm", "num_layers", "hidden_size", "num_attention_heads", "multi_query_group_num",
     "kv_channels", "ffn_hidden_size", "padded_vocab_size", "seq_length", "layernorm_epsilon", 1e-5,
     Family::glm, false, Activation::silu, "ChatGLMModel ChatGLMForConditionalGeneration", "", "",
     0},
    with_kv_heads(llama_dialect("glm", Family::glm, "GlmForCausalLM"), 2, 128),
    qwen_dialect("qwen2", Family::qwen2, "Qwen2ForCausalLM", 0),
    qwen_dialect("qwen3", Family::qwen3, "Qwen3ForCausalLM", 128),
    gemma_dialect("gemma2", Family::gemma2, "Gemma2ForCausalLM", 10000.0),
    gemma3_dialect(),
    ministral3_dialect(),
    phi3_dialect(),
    llama_dialect("granite", Family::granite, "GraniteForCausalLM"),
    smollm3_dialect(),
    qwen_dialect("qwen3_vl_text", Family::qwen3, "Qwen3ForCausalLM", 128),
    qwen_dialect("mimo", Family::qwen2, "MiMoForCausalLM", 0),
    experts_dialect("mixtral", Family::mixtral, "MixtralForCausalLM", "intermediate_size", 8),
    experts_dialect("qwen2_moe", Family::qwen2_moe, "Qwen2MoeForCausalLM", kExpertWidth, 16),
    experts_dialect("qwen3_moe", Family::qwen3_moe, "Qwen3MoeForCausalLM", kExpertWidth, 4),
    experts_dialect("qwen3_vl_moe_text", Family::qwen3_moe, "Qwen3MoeForCausalLM", kExpertWidth,
                    16),
    experts_dialect("gpt_oss", Family::gpt_oss, "GptOssForCausalLM", "intermediate_size", 8, 64),
    experts_dialect("deepseek_v2", Family::deepseek, "DeepseekV2ForCausalLM", kExpertWidth),
    experts_dialect("deepseek_v3", Family::deepseek, "DeepseekV3ForCausalLM", kExpertWidth),
    experts_dialect("deepseek_v32", Family::deepseek, "DeepseekV32ForCausalLM", kExpertWidth),
    experts_dialect("kimi_k2", Family::deepseek, "DeepseekV3ForCausalLM", kExpertWidth),
    experts_dialect("glm_moe_dsa", Family::deepseek, "GlmMoeDsaForCausalLM", kExpertWidth),
    experts_dialect("glm4_moe", Family::glm4_moe, "Glm4MoeForCausalLM", kExpertWidth),
    experts_dialect("llama4_text", Family::llama4, "Llama4ForCausalLM", "intermediate_size", 8,
                    128),
    experts_dialect("minimax_m2", Family::minimax_m2, "MiniMaxM2ForCausalLM"),
};

// Model types whose layers cannot be represented.
struct Refused {
  std::string_view model_type;
  const char* has;
};
constexpr const char* kLinear = "linear attention, which is not supported";
constexpr const char* kMixedHeads =
    "heads whose sizes or numbers differ by layer, which are not supported";
constexpr const char* kCompressed =
    "attention to compressed or chosen blocks of keys, which is not supported";
constexpr Refused kRefused[] = {
    {"qwen3_next", kLinear},
    {"qwen3_5", kLinear},
    {"qwen3_5_moe", kLinear},
    {"kimi_k3", kLinear},
    {"kimi_linear", kLinear},
    {"minimax_m1", kLinear},
    {"nemotron_h", "state space layers (Mamba), which are not supported"},
    {"gemma4", kMixedHeads},
    {"gemma3n", "caches that layers share and embeddings by layer, which are not supported"},
    {"mimo_v2_flash", kMixedHeads},
    {"deepseek_v4", kCompressed},
    {"deepseek_ref", kCompressed},
    {"minimax_m3", kCompressed},
    {"step3p7", kMixedHeads},
    {"nemotron-nas", "layers of different sizes, which are not supported"}};

}  // namespace

const Dialect& find_dialect(std::string_view model_type, const JsonValue& field) {
  for (const Refused& refused : kRefused) {
    if (refused.model_type == model_type) field.fail(std::string("a model without ") + refused.has);
  }
  std::string known;
  for (const Dialect& dialect : kDialects) {
    if (dialect.model_type == model_type) return dialect;
    known += known.empty() ? "" : ", ";
    known += dialect.model_type;
  }
  field.fail("one of " + known);
}

const Dialect& written_dialect(Family family) {
  if (family == Family::gemma3) return dialect_of("gemma3_text");
  if (family == Family::deepseek) return dialect_of("deepseek_v3");
  if (family == Family::llama4) return dialect_of("llama4_text");
  return dialect_of(to_string(family));
}

const Dialect& dialect_of(std::string_view model_type) {
  const auto* const found = std::ranges::find(kDialects, model_type, &Dialect::model_type);
  require(found != std::end(kDialects), "a model type that tandem writes");
  return *found;
}

}  // namespace tandem::model
