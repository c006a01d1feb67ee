#include "model/config_dialect.hpp"

#include <algorithm>
#include <iterator>
#include <string>

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

// As the configuration classes of Hugging Face transformers name them, chatglm as in THUDM's.
constexpr Dialect kDialects[] = {
    llama_dialect("llama", Family::llama, "LlamaForCausalLM LLaMAForCausalLM"),
    llama_dialect("mistral", Family::llama, "MistralForCausalLM"),
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
    llama_dialect("glm", Family::glm, "GlmForCausalLM"),
};

}  // namespace

const Dialect& find_dialect(std::string_view model_type, const JsonValue& field) {
  std::string known;
  for (const Dialect& dialect : kDialects) {
    if (dialect.model_type == model_type) return dialect;
    known += known.empty() ? "" : ", ";
    known += dialect.model_type;
  }
  field.fail("one of " + known);
}

const Dialect& written_dialect(Family family) {
  const std::string_view model_type =
      family == Family::glm ? std::string_view("glm") : to_string(family);
  return *std::find_if(std::begin(kDialects), std::end(kDialects),
                       [&](const Dialect& d) { return d.model_type == model_type; });
}

}  // namespace tandem::model
