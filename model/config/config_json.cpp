// Hugging Face `config.json` to Transformer and back.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "model/base/file_kind.hpp"
#include "model/base/json_value.hpp"
#include "model/base/limits.hpp"
#include "model/base/plain_text.hpp"
#include "model/config/config_dialect.hpp"
#include "model/config/config_experts.hpp"
#include "model/config/config_fields.hpp"
#include "model/config/config_keys.hpp"
#include "model/config/config_rope.hpp"
#include "model/config/config_traits.hpp"
#include "model/config/stated_context.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

namespace {

constexpr std::size_t kMaxStops = 256;

std::string name_from(std::string_view source) {
  constexpr std::string_view kExtension = ".json";
  const auto last_part = [](std::string_view path) {
    return path.substr(path.find_last_of('/') + 1);  // npos + 1 is 0
  };
  std::string_view name = last_part(source);
  if (name == "config.json" && source.size() > name.size()) {
    name = last_part(source.substr(0, source.size() - name.size() - 1));
  }
  if (name.ends_with(kExtension)) name.remove_suffix(kExtension.size());
  constexpr std::size_t kLongest = 200;
  return one_line(name.substr(0, kLongest));
}

std::int64_t size_field(const JsonValue& root, std::string_view key) {
  return root.at(key).integer(1, kMaxSize);
}

// `absent`: the class's default for an absent field; 0: the field is required.
std::int64_t size_or(const JsonValue& root, std::string_view key, std::int64_t absent) {
  return absent > 0 && !root.json().contains(key) ? absent : size_field(root, key);
}

std::optional<std::int64_t> optional_size(const JsonValue& root, std::string_view key) {
  return key.empty() ? std::nullopt : size_of_field(root, key);
}

bool flag(const JsonValue& root, std::string_view key, bool absent) {
  const std::optional<JsonValue> field = root.find(key);
  return field ? field->boolean() : absent;
}

// Returns Hugging Face's default for an absent field (null is none), where its class has its own.
std::int64_t kv_heads_if_absent(const JsonValue& root, const Dialect& dialect, std::int64_t heads) {
  if (dialect.kv_heads.empty() || root.json().contains(dialect.kv_heads)) return heads;
  return dialect.default_kv_heads > 0 ? dialect.default_kv_heads : heads;
}

std::int64_t heads_that_hold_keys(const JsonValue& root, const Dialect& dialect,
                                  std::int64_t heads) {
  if (dialect.model_type == "chatglm" && !flag(root, "multi_query_attention", false)) return heads;
  const std::int64_t absent = kv_heads_if_absent(root, dialect, heads);
  return optional_size(root, dialect.kv_heads).value_or(absent);
}

void read_head_dim(const JsonValue& root, const Dialect& dialect, Transformer& t) {
  if (const auto head_dim = optional_size(root, dialect.head_dim)) {
    t.head_dim = *head_dim;
  } else if (dialect.default_head_dim > 0 && !root.json().contains(dialect.head_dim)) {
    t.head_dim = dialect.default_head_dim;
  } else {
    if (t.hidden % t.heads != 0) {
      root.at(dialect.hidden).fail("a multiple of " + std::to_string(t.heads) + " heads");
    }
    t.head_dim = t.hidden / t.heads;
  }
  if (t.head_dim % 2 != 0) {
    const auto key = root.find(dialect.head_dim) ? dialect.head_dim : dialect.hidden;
    root.at(key).fail("an even size of a head, not " + std::to_string(t.head_dim));
  }
}

// Returns whether all layers have the same window, or none.
bool caps_context(Family family) {
  return family == Family::llama || family == Family::phi3 || family == Family::mixtral;
}

// Returns whether config.json states how positions are rotated.
bool is_rotary(Family family) { return !architecture_of(family).learned(); }

// Mistral's and Phi 3's classes use their window whatever use_sliding_window says.
bool asks_to_slide(const Dialect& dialect) {
  return dialect.family != Family::phi3 && dialect.model_type != "mistral" &&
         dialect.model_type != "ministral3";
}

std::int64_t context_of(const JsonValue& root, const Dialect& dialect) {
  // Llama 1's oldest files have the second name only.
  const auto context_key = !root.find(dialect.context) && root.find("max_sequence_length")
                               ? "max_sequence_length"
                               : dialect.context;
  const std::int64_t context = size_or(root, context_key, dialect.default_context);
  const auto shorter = optional_size(root, "max_sequence_length");
  return shorter ? std::min(context, *shorter) : context;
}

// Attention within a window is full attention up to there.
void read_context(const JsonValue& root, const Dialect& dialect, Transformer& t) {
  t.max_context = context_of(root, dialect);
  if (!caps_context(dialect.family)) return;
  if (!flag(root, "use_sliding_window", true) && asks_to_slide(dialect)) return;
  constexpr std::int64_t kWindowOfMistral = 4096;  // where its files say nothing
  if (const auto window = root.find("sliding_window")) {
    t.max_context = std::min(t.max_context, window->integer(1, kMaxSize));
  } else if (dialect.model_type == "mistral" && !root.json().contains("sliding_window")) {
    t.max_context = std::min(t.max_context, kWindowOfMistral);
  }
}

void read_sizes(const JsonValue& root, const Dialect& dialect, Transformer& t) {
  t.layers = root.at(dialect.layers).integer(1, limits::kLayers);
  t.hidden = size_field(root, dialect.hidden);
  t.heads = size_or(root, dialect.heads, dialect.default_heads);
  t.kv_heads = heads_that_hold_keys(root, dialect, t.heads);
  if (t.heads % t.kv_heads != 0) {
    const auto key = root.find(dialect.kv_heads) ? dialect.kv_heads : dialect.heads;
    root.at(key).fail(key == dialect.kv_heads
                          ? "a divisor of " + std::to_string(t.heads)
                          : "a multiple of " + std::to_string(t.kv_heads) + " key/value heads");
  }
  if (has_latent_attention(dialect.family)) {
    read_latent(root, t);
  } else {
    read_head_dim(root, dialect, t);
  }
  if (dialect.family == Family::gpt2) {  // n_inner is null in the published files
    t.intermediate = optional_size(root, dialect.intermediate).value_or(4 * t.hidden);
  } else {
    t.intermediate = size_field(root, dialect.intermediate);
  }
  t.vocab = size_or(root, dialect.vocab, dialect.default_vocab);
  read_context(root, dialect, t);
}

// Checks that alternative names of fields have the same values as the first.
void read_second_names(const JsonValue& root, const Dialect& dialect, const Transformer& t) {
  const auto same = [&](std::string_view key, std::int64_t value) {
    if (const auto field = root.find(key); field && field->integer(0, kMaxSize) != value)
      field->fail(std::to_string(value) + ", as another field has it");
  };
  if (dialect.family == Family::gpt2) same("n_ctx", t.max_context);
  if (dialect.family == Family::opt) same("word_embed_proj_dim", t.hidden);
  if (dialect.model_type == "chatglm") same("num_hidden_layers", t.layers);
}

// Reads what each layer attends to: everything before it, or a window at most as long as the
// context.
void read_layer_types(const JsonValue& root, const Transformer& t) {
  if (!caps_context(t.family)) return;  // by layer: read_traits
  const auto types = root.find("layer_types");
  if (!types) return;
  const std::size_t count = types->size(static_cast<std::size_t>(kMaxSize));
  if (count != static_cast<std::size_t>(t.layers))
    types->fail("one for each of the " + std::to_string(t.layers) + " layers");
  for (std::size_t i = 0; i < count; ++i) {
    const std::string type = types->at(i).text();
    if (type == "full_attention") continue;
    if (type == "sliding_attention" && root.find("sliding_window") &&
        flag(root, "use_sliding_window", true)) {
      continue;
    }
    types->at(i).fail("\"full_attention\", or \"sliding_attention\" with a sliding_window");
  }
}

void read_architectures(const JsonValue& root, const Dialect& dialect) {
  const auto architectures = root.find("architectures");
  if (!architectures) return;
  constexpr std::size_t kMost = 16;
  const std::string known = " " + std::string(dialect.architectures) + " ";
  for (std::size_t i = 0; i < architectures->size(kMost); ++i) {
    const JsonValue name = architectures->at(i);
    if (known.find(" " + name.text() + " ") == std::string::npos)
      name.fail("one of " + std::string(dialect.architectures) + ", which have the head of a " +
                std::string(dialect.model_type) + " language model");
  }
}

// Returns the fields that the functions of this file read: no other may pass unnoticed.
std::vector<std::string_view> keys_read(const Dialect& d) {
  std::vector<std::string_view> keys{"tandem_name",         "model_type",   "architectures",
                                     "tie_word_embeddings", "bos_token_id", "eos_token_id"};
  for (const std::string_view key :
       {d.layers, d.hidden, d.heads, d.kv_heads, d.head_dim, d.intermediate, d.vocab, d.context,
        d.epsilon, d.token_types}) {
    if (!key.empty()) keys.push_back(key);
  }
  if (!architecture_of(d.family).gated) keys.push_back(d.activation);
  for (const std::string_view key : expert_keys(d.family)) keys.push_back(key);
  keys.push_back("quantization_config");
  const auto add = [&](std::initializer_list<std::string_view> more) {
    keys.insert(keys.end(), more);
  };
  if (d.epsilon.empty()) add({"tandem_norm_epsilon"});
  if (caps_context(d.family))
    add({"max_sequence_length", "sliding_window", "use_sliding_window", "layer_types"});
  for (const std::string_view key : trait_keys(d.family)) keys.push_back(key);
  if (d.family == Family::gpt2) add({"n_ctx"});
  if (d.family == Family::opt) add({"word_embed_proj_dim"});
  if (d.model_type == "chatglm") {
    add({"multi_query_attention", "rope_ratio", "num_hidden_layers", "vocab_size"});
  } else if (is_rotary(d.family)) {
    add({"rope_theta", "rope_scaling", "rope_parameters"});
    if (d.family == Family::phi3)
      add({"partial_rotary_factor", "original_max_position_embeddings"});
  }
  return keys;
}

// Requires fields whose default in the class is not what tandem plans or runs.
void expect_said(const JsonValue& root, const Dialect& dialect) {
  constexpr std::pair<std::string_view, std::string_view> kSaid[] = {
      {"internlm2", "bias"}, {"chatglm", "add_qkv_bias"}, {"glm", "attention_bias"}};
  for (const auto& [model_type, key] : kSaid) {
    if (dialect.model_type == model_type) (void)root.at(key).boolean();
  }
}

Activation read_activation(const JsonValue& root, const Dialect& dialect) {
  if (architecture_of(dialect.family).gated) return dialect.default_activation;
  const auto field = root.find(dialect.activation);
  if (!field) return dialect.default_activation;
  const auto known = activation_of(field->text());
  if (!known) field->fail("one of gelu, gelu_new, relu, silu");
  return *known;
}

void read_tokens(const JsonValue& root, Transformer& t) {
  if (const auto bos = root.find("bos_token_id")) t.bos_token = bos->integer(-1, kMaxSize);
  const auto eos = root.find("eos_token_id");
  if (!eos) return;
  if (!eos->is_array()) {
    const std::int64_t token = eos->integer(-1, kMaxSize);
    if (token >= 0) t.eos_tokens.push_back(token);
    return;
  }
  const std::size_t count = eos->size(kMaxStops);
  for (std::size_t i = 0; i < count; ++i) {
    t.eos_tokens.push_back(eos->at(i).integer(0, kMaxSize));
  }
}

}  // namespace

namespace {

// Multimodal models whose text part is run: the file's model_type, the class, and the possible
// types of the text part.
struct Seeing {
  std::string_view model_type;
  std::string_view architecture;
  std::string_view text_types;  // by spaces
  bool ties = false;  // the file states whether embeddings are tied, if text_config does not
};
constexpr Seeing kSeeing[] = {
    {"mistral3", "Mistral3ForConditionalGeneration", "mistral ministral3"},
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text"},
    {"qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl_text", true},
    {"qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text", true},
    {"llama4", "Llama4ForConditionalGeneration", "llama4_text", true},
    {"kimi_k25", "KimiK25ForConditionalGeneration", "kimi_k2 deepseek_v3", true},
};

const Seeing* seeing_of(const JsonValue& file) {
  const std::string type = file.at("model_type").text();
  const auto* const seeing = std::ranges::find(kSeeing, type, &Seeing::model_type);
  return seeing == std::end(kSeeing) ? nullptr : seeing;
}

// Returns the text part of the file: all of it, or text_config. Other fields describe images, or
// repeat the text part's.
JsonValue text_part(const JsonValue& file) {
  const Seeing* const seeing = seeing_of(file);
  if (seeing == nullptr) return file;
  constexpr std::string_view kBeside[] = {"architectures",
                                          "model_type",
                                          "text_config",
                                          "vision_config",
                                          "image_token_index",
                                          "image_token_id",
                                          "boi_token_index",
                                          "eoi_token_index",
                                          "boi_token_id",
                                          "eoi_token_id",
                                          "mm_tokens_per_image",
                                          "multimodal_projector_bias",
                                          "projector_hidden_act",
                                          "spatial_merge_size",
                                          "vision_feature_layer",
                                          "initializer_range",
                                          "torch_dtype",
                                          "dtype",
                                          "transformers_version",
                                          "eos_token_id",
                                          "bos_token_id",
                                          "pad_token_id",
                                          "tie_word_embeddings",
                                          "_name_or_path",
                                          "quantization_config",
                                          "auto_map",
                                          "ignore_index",
                                          "video_token_id",
                                          "vision_start_token_id",
                                          "vision_end_token_id",
                                          "media_placeholder_token_id",
                                          "use_unified_vision_chunk",
                                          "video_placeholder"};
  for (const auto& [key, value] : file.json().items()) {
    if (!value.is_null() && std::ranges::find(kBeside, key) == std::end(kBeside))
      file.fail_key(key, "only fields that tandem knows, as it may change what the model computes");
  }
  if (const auto architectures = file.find("architectures")) {
    for (std::size_t i = 0; i < architectures->size(1); ++i) {
      if (architectures->at(i).text() != seeing->architecture)
        architectures->at(i).fail("\"" + std::string(seeing->architecture) + "\"");
    }
  }
  JsonValue text = file.at("text_config");
  const JsonValue inner = text.at("model_type");
  if ((" " + std::string(seeing->text_types) + " ").find(" " + inner.text() + " ") ==
      std::string::npos)
    inner.fail("one of " + std::string(seeing->text_types));
  return text;
}

constexpr JsonLimits kConfigLimits{.bytes = std::size_t{1} << 20U, .depth = 32};
constexpr std::string_view kConfigRemedy = "correct the file or use another model";

// Returns `text` with the numbers that Python writes and JSON does not have (NaN, Infinity,
// -Infinity) as strings, so that only a field that must be a number refuses them.
std::string with_quoted_numbers(std::string_view text) {
  std::string quoted;
  quoted.reserve(text.size());
  bool in_string = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto is_number = [&](std::string_view word) {
      return !in_string && text.substr(at).starts_with(word);
    };
    const std::string_view number = is_number("-Infinity")  ? "-Infinity"
                                    : is_number("Infinity") ? "Infinity"
                                    : is_number("NaN")      ? "NaN"
                                                            : "";
    if (!number.empty()) {
      quoted.append("\"").append(number).append("\"");
      at += number.size();
      continue;
    }
    if (text[at] == '"') in_string = !in_string;
    if (in_string && text[at] == '\\' && at + 1 < text.size()) quoted.push_back(text[at++]);
    quoted.push_back(text[at++]);
  }
  return quoted;
}

}  // namespace

std::int64_t stated_context(std::string_view text, std::string_view source) {
  const JsonDocument document(with_quoted_numbers(text), source, kConfigRemedy, kConfigLimits);
  const JsonValue root = text_part(document.root());
  const JsonValue type_field = root.at("model_type");
  return context_of(root, find_dialect(type_field.text(), type_field));
}

Transformer parse_config_json(std::string_view text, std::string_view source) {
  const std::string quoted = with_quoted_numbers(text);
  expect_kind(quoted, source, kConfigKind);
  const JsonDocument document(quoted, source, kConfigRemedy, kConfigLimits);
  const JsonValue file = document.root();
  const JsonValue root = text_part(file);
  const JsonValue type_field = root.at("model_type");
  const Dialect& dialect = find_dialect(type_field.text(), type_field);

  Transformer t;
  const std::optional<JsonValue> name = root.find("tandem_name");
  t.name = name ? name->text(256) : name_from(source);
  t.family = dialect.family;
  read_architectures(root, dialect);
  read_sizes(root, dialect, t);
  read_second_names(root, dialect, t);
  read_layer_types(root, t);
  expect_said(root, dialect);
  t.tied_embeddings = flag(root, "tie_word_embeddings", dialect.tied_by_default);
  t.norm_epsilon = dialect.default_epsilon;
  if (const auto epsilon = dialect.epsilon.empty() ? std::nullopt : root.find(dialect.epsilon)) {
    t.norm_epsilon = positive(*epsilon, 0.5);
  } else if (const auto own = root.find("tandem_norm_epsilon")) {
    t.norm_epsilon = positive(*own, 0.5);
  }
  t.activation = read_activation(root, dialect);
  if (!dialect.token_types.empty()) {
    const auto types = root.find(dialect.token_types);
    t.token_types = types ? types->integer(0, kMaxSize) : dialect.default_token_types;
  }
  if (is_rotary(dialect.family)) read_rope(root, dialect, t);
  read_traits(root, dialect, t);
  read_experts(root, dialect, t);
  read_quantisation(root, file, t);
  read_tokens(root, t);
  if (&file.json() != &root.json()) {
    const Transformer inner = t;
    read_tokens(file, t);
    if (t.eos_tokens.size() > inner.eos_tokens.size() && !inner.eos_tokens.empty())
      t.eos_tokens = inner.eos_tokens;
    const auto tied = file.find("tie_word_embeddings");
    if (tied && seeing_of(file)->ties && !root.find("tie_word_embeddings"))
      t.tied_embeddings = tied->boolean();
    if (tied && tied->boolean() != t.tied_embeddings)
      tied->fail(t.tied_embeddings ? "true, as text_config has it"
                                   : "false, as text_config has it");
  }
  check_config_keys(root, dialect.family, keys_read(dialect));
  t.validate();
  return t;
}

std::string to_config_json(const Transformer& t) {
  const Dialect& dialect = written_dialect(t.family);
  nlohmann::ordered_json json;
  const auto put = [&](std::string_view key, const auto& value) {
    if (!key.empty()) json[std::string(key)] = value;
  };
  put("tandem_name", t.name);
  // Only Ministral's class has queries that grow.
  put("model_type", std::string(t.query_growth > 0.0 ? "ministral3" : dialect.model_type));
  put(dialect.layers, t.layers);
  put(dialect.hidden, t.hidden);
  put(dialect.heads, t.heads);
  put(dialect.kv_heads, t.kv_heads);
  put(dialect.head_dim, t.head_dim);
  put(dialect.intermediate, t.intermediate);
  put(dialect.vocab, t.vocab);
  put(dialect.context, t.max_context);
  put(dialect.epsilon.empty() ? "tandem_norm_epsilon" : dialect.epsilon, t.norm_epsilon);
  put("tie_word_embeddings", t.tied_embeddings);
  if (!t.architecture().gated) put(dialect.activation, std::string(to_string(t.activation)));
  put(dialect.token_types, t.token_types);
  if (is_rotary(t.family)) write_rope(t, json);
  if (t.family == Family::glm) put("attention_bias", true);
  write_traits(t, json);
  write_experts(t, json);
  if (t.bos_token >= 0) put("bos_token_id", t.bos_token);
  if (!t.eos_tokens.empty()) put("eos_token_id", t.eos_tokens);
  return to_text(json);
}

}  // namespace tandem::model
