#include "model/config/config_keys.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace tandem::model {
namespace {

using nlohmann::json;

// Settings without an effect on results: names, storage, training, sampling, and how Hugging Face's
// library computes the same.
constexpr std::string_view kHarmless[] = {
    // Names and the library.
    "_name_or_path", "name_or_path", "transformers_version", "auto_map", "custom_pipelines",
    "tokenizer_class", "processor_class", "finetuning_task", "task_specific_params", "problem_type",
    "id2label", "label2id", "num_labels", "_num_labels", "unsloth_version", "unsloth_fixed",
    "model_name", "is_llama_config", "transformers.js_config", "cache_implementation",
    "_commit_hash", "license",
    // Storage of weights: the weights' files state it.
    "torch_dtype", "dtype", "use_bfloat16", "fp16", "bf16",
    // How the library computes the same result.
    "use_cache", "torchscript", "return_dict", "output_hidden_states", "output_attentions",
    "output_past", "output_scores", "return_dict_in_generate", "pretraining_tp",
    "chunk_size_feed_forward", "_attn_implementation", "_attn_implementation_autoset",
    "_attn_implementation_internal", "attn_implementation", "_flash_attn_2_enabled",
    "use_flash_attn", "_experts_implementation", "use_memory_efficient_attention",
    "gradient_checkpointing", "tf_legacy_loss", "attention_softmax_in_fp32",
    "fp32_residual_connection", "reorder_and_upcast_attn", "apply_query_key_layer_scaling",
    "bias_dropout_fusion",
    // Training.
    "initializer_range", "init_std", "initializer_factor", "attention_dropout", "hidden_dropout",
    "activation_dropout", "dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "layerdrop",
    "classifier_dropout", "attention_probs_dropout_prob", "hidden_dropout_prob", "qa_dropout",
    "seq_classif_dropout", "resid_dropout", "embed_dropout", "scale_embedding_gradient",
    // Heads that are not the language model's.
    "n_special", "predict_special_tokens", "summary_activation", "summary_first_dropout",
    "summary_proj_to_labels", "summary_type", "summary_use_proj", "directionality",
    "pooler_dropout", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type",
    // Tokens: their ids do not change the computation.
    "pad_token_id", "unk_token_id", "sep_token_id", "cls_token_id", "mask_token_id",
    "decoder_start_token_id", "prefix", "ignore_index",
    // Sampling defaults of Hugging Face's generate(): flags decide here.
    "max_length", "min_length", "max_new_tokens", "do_sample", "early_stopping", "num_beams",
    "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p",
    "repetition_penalty", "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
    "bad_words_ids", "num_return_sequences", "forced_bos_token_id", "forced_eos_token_id",
    "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens"};

constexpr unsigned bit(Family family) { return 1U << static_cast<unsigned>(family); }
constexpr unsigned kLlama = bit(Family::llama);
constexpr unsigned kGpt2 = bit(Family::gpt2);
constexpr unsigned kOpt = bit(Family::opt);
constexpr unsigned kBert = bit(Family::bert) | bit(Family::distilbert);
constexpr unsigned kGlm = bit(Family::glm);
constexpr unsigned kQwen2 = bit(Family::qwen2);
constexpr unsigned kGemma = bit(Family::gemma2) | bit(Family::gemma3);
constexpr unsigned kPhi3 = bit(Family::phi3);
// Llama, and those of its successors that have its settings.
constexpr unsigned kLlamas =
    kLlama | bit(Family::qwen3) | kPhi3 | bit(Family::granite) | bit(Family::smollm3);
constexpr unsigned kSilu = kLlamas | kQwen2;
constexpr unsigned kDecoders = kLlamas | kQwen2 | kGemma;
constexpr unsigned kGptOss = bit(Family::gpt_oss);
constexpr unsigned kGlm4 = bit(Family::glm4_moe);
// Families with experts, which are planned only.
constexpr unsigned kExperts = bit(Family::mixtral) | bit(Family::qwen2_moe) |
                              bit(Family::qwen3_moe) | kGptOss | bit(Family::deepseek) | kGlm4 |
                              bit(Family::llama4) | bit(Family::minimax_m2);
constexpr unsigned kAll = kDecoders | kGpt2 | kOpt | kBert | kGlm | kExperts;

// Settings of models with experts that change what is computed, but neither its size nor its work:
// which experts a router chooses and how their outputs are weighed, norms of heads, positions,
// indexers' order. Layers that predict further tokens are not planned.
constexpr std::string_view kOfExperts[] = {"output_router_logits",
                                           "router_aux_loss_coef",
                                           "router_jitter_noise",
                                           "norm_topk_prob",
                                           "n_group",
                                           "topk_group",
                                           "topk_method",
                                           "scoring_func",
                                           "routed_scaling_factor",
                                           "aux_loss_alpha",
                                           "seq_aux",
                                           "ep_size",
                                           "moe_router_dtype",
                                           "num_nextn_predict_layers",
                                           "mtp_transformer_layers",
                                           "num_mtp_modules",
                                           "use_mtp",
                                           "qk_norm_type",
                                           "use_qk_norm",
                                           "rotary_dim",
                                           "swiglu_limit",
                                           "initial_context_length",
                                           "qk_head_dim",
                                           "rope_interleave",
                                           "indexer_rope_interleave",
                                           "index_share_for_mtp_iteration",
                                           "index_skip_topk_offset",
                                           "index_topk_freq",
                                           "index_topk_pattern",
                                           "for_llm_compressor",
                                           "no_rope_layers",
                                           "no_rope_layer_interval",
                                           "attn_temperature_tuning",
                                           "floor_scale",
                                           "attn_scale",
                                           "rope_theta",
                                           "rope_scaling",
                                           "rope_parameters",
                                           "is_decoder"};

// A setting with supported values; `values` is a JSON array of them.
struct Setting {
  std::string_view key;
  unsigned families;
  std::string_view values;
  std::string_view expected;
};

// `[]`: whatever it is, but absent or null, it is refused.
constexpr Setting kSettings[] = {
    // Everywhere: other weights, other layers, another direction of attention.
    {"compression_config", kAll, "[]",
     "none: compressed weights are not supported; take the model in F32, F16 or BF16"},
    {"pruned_heads", kAll, "[{}]", "{}: no head removed"},
    {"is_encoder_decoder", kAll, "[false]", "false: one stack of decoder layers"},
    {"add_cross_attention", kAll, "[false]", "false: no attention to another model"},
    {"tie_encoder_decoder", kAll, "[false]", "false"},
    {"cross_attention_hidden_size", kAll, "[]", "none: no attention to another model"},
    {"is_decoder", kAll & ~kBert, "[true, false]", "true or false"},  // decoders are, said or not
    // Llama and its successors: no biases, SiLU, every dimension of a head rotated, full or sliding
    // attention.
    {"attention_bias", kLlamas | kGemma, "[false]", "false: this family's matrices have no biases"},
    {"mlp_bias", kDecoders, "[false]", "false: this family's matrices have no biases"},
    {"bias", kDecoders, "[false]", "false: this family's matrices have no biases"},
    {"qkv_bias", kLlamas | kGemma, "[false]", "false: this family's matrices have no biases"},
    {"use_bias", kDecoders, "[false]", "false: this family's matrices have no biases"},
    {"lm_head_bias", kDecoders, "[false]", "false: this family's matrices have no biases"},
    {"hidden_act", kSilu, R"(["silu", "swish"])", "\"silu\""},
    {"partial_rotary_factor", kDecoders & ~kPhi3, "[1]", "1: all of a head is rotated"},
    {"rope_interleaved", kDecoders, "[false]", "false: halves of a head are rotated"},
    {"use_parallel_residual", kDecoders, "[false]", "false: attention comes before the FFN"},
    {"use_qk_norm", kLlama | kQwen2, "[false]", "false: queries and keys are not normalised"},
    {"qk_layernorm", kLlama | kQwen2, "[false]", "false: queries and keys are not normalised"},
    {"num_experts", kDecoders, "[]", "none: mixtures of experts are not supported"},
    {"num_local_experts", kDecoders, "[]", "none: mixtures of experts are not supported"},
    {"final_logit_softcapping", kSilu, "[]", "none: capped logits are Gemma's"},
    {"attn_logit_softcapping", kSilu, "[]", "none: capped scores are Gemma's"},
    // Families with experts.
    {"hidden_act", kExperts, R"(["silu", "swish"])", "\"silu\""},
    {"attention_bias", kExperts & ~(kGptOss | kGlm4), "[false]",
     "false: this family's matrices have no biases"},
    {"attention_bias", kGptOss, "[true]", "true: this family's matrices have biases"},
    {"attention_bias", kGlm4, "[true, false]", "true or false"},
    {"qkv_bias", kExperts, "[false]", "false: this family's matrices have no biases"},
    {"mlp_bias", kExperts, "[false]", "false: this family's matrices have no biases"},
    {"use_mrope", kExperts, "[false]", "false: one position a token"},
    // Layers that predict further tokens are not run.
    {"num_nextn_predict_layers", kQwen2, "[0, 1, 2, 3, 4]", "at most 4"},
    // Qwen 2: biases of queries, keys and values, which its class always has.
    {"attention_bias", kQwen2, "[true]", "true: biases on queries, keys and values"},
    {"qkv_bias", kQwen2, "[true]", "true: biases on queries, keys and values"},
    {"use_mrope", kQwen2, "[false]", "false: one position a token"},
    // Gemma: GELU by tanh, attention to what came before.
    {"hidden_act", kGemma, R"(["gelu_pytorch_tanh"])", "\"gelu_pytorch_tanh\""},
    {"hidden_activation", kGemma, R"(["gelu_pytorch_tanh"])", "\"gelu_pytorch_tanh\""},
    {"use_bidirectional_attention", kGemma, "[false]", "false: each token sees those before it"},
    // Phi 3: fields of variants that were not published.
    {"full_attn_mod", kPhi3, "[1]", "1: equal attention in all layers"},
    {"interpolate_factor", kPhi3, "[1]", "1: positions are as they are"},
    // GPT-2: scores are divided by the square root of the head's size, equally in every layer.
    {"scale_attn_weights", kGpt2, "[true]", "true: scores are scaled"},
    {"scale_attn_by_inverse_layer_idx", kGpt2, "[false]", "false: the same scale in every layer"},
    // OPT: normalised before attention and FFN, with biases and a last norm.
    {"do_layer_norm_before", kOpt, "[true]", "true: normalised before attention and FFN"},
    {"_remove_final_layer_norm", kOpt, "[false]", "false: a norm before the LM head"},
    {"enable_bias", kOpt, "[true]", "true: matrices have biases"},
    {"layer_norm_elementwise_affine", kOpt, "[true]", "true: norms have weights"},
    // BERT: an encoder with a table of positions, which sinusoids may have filled.
    {"is_decoder", kBert, "[false]", "false: an encoder"},
    {"position_embedding_type", kBert, R"(["absolute"])", "\"absolute\""},
    {"sinusoidal_pos_embds", kBert, "[true, false]", "true or false"},
    {"tie_weights_", kBert, "[true]", "true: the head shares the embedding"},
    // GLM: RMSNorm, a gated FFN, biases on queries, keys and values only; rotation is not counted.
    {"hidden_act", kGlm, R"(["silu", "swish"])", "\"silu\""},
    {"partial_rotary_factor", kGlm, "[0.5]", "0.5"},
    {"rmsnorm", kGlm, "[true]", "true"},
    {"add_bias_linear", kGlm, "[false]", "false: biases on queries, keys and values only"},
    {"add_qkv_bias", kGlm, "[true]", "true: biases on queries, keys and values"},
    {"attention_bias", kGlm, "[true]", "true: biases on queries, keys and values"},
    {"apply_residual_connection_post_layernorm", kGlm, "[false]", "false"},
    {"post_layer_norm", kGlm, "[true]", "true: a norm before the LM head"},
    {"interleaved_qkv", kGlm, "[true, false]", "true or false"},
    {"original_rope", kGlm, "[true, false]", "true or false"},
    {"pre_seq_len", kGlm, "[0]", "none: no prefix"},
    {"prefix_projection", kGlm, "[false]", "false: no prefix"},
    {"quantization_bit", kGlm, "[0]", "0: weights are not quantised"},
};

}  // namespace

void check_config_keys(const JsonValue& root, Family family,
                       std::span<const std::string_view> read) {
  for (const auto& [key, value] : root.json().items()) {
    if (std::find(read.begin(), read.end(), key) != read.end()) continue;
    if (std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless)) continue;
    if (value.is_null()) continue;
    if ((kExperts & bit(family)) != 0 &&
        std::find(std::begin(kOfExperts), std::end(kOfExperts), key) != std::end(kOfExperts))
      continue;
    const std::string& name = key;
    const auto* setting = std::find_if(
        std::begin(kSettings), std::end(kSettings),
        [&](const Setting& s) { return s.key == name && (s.families & bit(family)) != 0; });
    if (setting == std::end(kSettings)) {
      root.fail_key(key,
                    "only fields that tandem knows, as it may change what the model computes (if "
                    "it does not, remove it from the file)");
    }
    const json allowed = json::parse(setting->values);
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
      root.at(key).fail(setting->expected);
  }
}

}  // namespace tandem::model
