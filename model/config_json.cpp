// Hugging Face `config.json` to Transformer and back.

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/json_value.hpp"
#include "model/transformer.hpp"

namespace tandem::model {

namespace {

constexpr std::int64_t kMaxSize = std::numeric_limits<std::int32_t>::max();
constexpr double kMaxNumber = std::numeric_limits<double>::max();
constexpr std::size_t kMaxStops = 256;
constexpr double kPlainRopeTheta = 10000.0;

// What one `model_type` calls its fields. Empty: it has no such field.
struct Dialect {
  std::string_view model_type;
  std::string_view layers;
  std::string_view hidden;
  std::string_view heads;
  std::string_view kv_heads;
  std::string_view head_dim;
  std::string_view intermediate;
  std::string_view vocab;
  std::string_view context;
  std::string_view epsilon;
  double default_epsilon;
  Family family;
  bool tied_by_default;
};

// The field names that Hugging Face's Llama has and its successors share.
constexpr Dialect llama_dialect(std::string_view model_type, Family family) {
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
          false};
}

// As the configuration classes of Hugging Face transformers name them, chatglm as in THUDM's.
constexpr Dialect kDialects[] = {
    llama_dialect("llama", Family::llama),
    llama_dialect("mistral", Family::llama),
    llama_dialect("internlm2", Family::llama),
    {"gpt2", "n_layer", "n_embd", "n_head", "", "", "n_inner", "vocab_size", "n_positions",
     "layer_norm_epsilon", 1e-5, Family::gpt2, true},
    {"opt", "num_hidden_layers", "hidden_size", "num_attention_heads", "", "", "ffn_dim",
     "vocab_size", "max_position_embeddings", "", 1e-5, Family::opt, true},
    {"bert", "num_hidden_layers", "hidden_size", "num_attention_heads", "", "", "intermediate_size",
     "vocab_size", "max_position_embeddings", "layer_norm_eps", 1e-12, Family::bert, true},
    {"distilbert", "n_layers", "dim", "n_heads", "", "", "hidden_dim", "vocab_size",
     "max_position_embeddings", "", 1e-12, Family::bert, true},
    {"chatglm", "num_layers", "hidden_size", "num_attention_heads", "multi_query_group_num",
     "kv_channels", "ffn_hidden_size", "padded_vocab_size", "seq_length", "layernorm_epsilon", 1e-5,
     Family::glm, false},
    llama_dialect("glm", Family::glm),
};

// The dialect that to_config_json writes.
std::string_view model_type_of(Family family) {
  return family == Family::glm ? std::string_view("glm") : to_string(family);
}

const Dialect& find_dialect(std::string_view model_type, const JsonValue& field) {
  std::string known;
  for (const Dialect& dialect : kDialects) {
    if (dialect.model_type == model_type) return dialect;
    known += known.empty() ? "" : ", ";
    known += dialect.model_type;
  }
  field.fail("one of " + known);
}

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
  return std::string(name);
}

std::int64_t size_field(const JsonValue& root, std::string_view key) {
  return root.at(key).integer(1, kMaxSize);
}

std::optional<std::int64_t> optional_size(const JsonValue& root, std::string_view key) {
  if (key.empty()) return std::nullopt;
  const std::optional<JsonValue> field = root.find(key);
  return field ? std::optional(field->integer(1, kMaxSize)) : std::nullopt;
}

bool flag(const JsonValue& root, std::string_view key, bool absent) {
  const std::optional<JsonValue> field = root.find(key);
  return field ? field->boolean() : absent;
}

double positive(const JsonValue& field, double max = kMaxNumber) {
  const double value = field.number(0.0, max);
  if (value <= 0.0) field.fail("a positive number");
  return value;
}

void read_sizes(const JsonValue& root, const Dialect& dialect, Transformer& t) {
  t.layers = size_field(root, dialect.layers);
  t.hidden = size_field(root, dialect.hidden);
  t.heads = size_field(root, dialect.heads);
  const bool grouped =
      dialect.model_type != "chatglm" || flag(root, "multi_query_attention", false);
  t.kv_heads = grouped ? optional_size(root, dialect.kv_heads).value_or(t.heads) : t.heads;
  if (t.heads % t.kv_heads != 0) {
    root.at(dialect.kv_heads).fail("a divisor of " + std::to_string(t.heads));
  }
  if (const auto head_dim = optional_size(root, dialect.head_dim)) {
    t.head_dim = *head_dim;
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
  if (dialect.family == Family::gpt2) {  // n_inner is null in the published files
    t.intermediate = optional_size(root, dialect.intermediate).value_or(4 * t.hidden);
  } else {
    t.intermediate = size_field(root, dialect.intermediate);
  }
  t.vocab = size_field(root, dialect.vocab);
  // Llama 1's oldest files have the second name only.
  const auto context_key = !root.find(dialect.context) && root.find("max_sequence_length")
                               ? "max_sequence_length"
                               : dialect.context;
  t.max_context = size_field(root, context_key);
  if (const auto window = root.find("sliding_window");
      window && flag(root, "use_sliding_window", true)) {
    t.max_context = std::min(t.max_context, window->integer(1, kMaxSize));
  }
  if (dialect.family == Family::opt) {
    if (const auto projected = root.find("word_embed_proj_dim");
        projected && projected->integer(1, kMaxSize) != t.hidden) {
      projected->fail(std::to_string(t.hidden) + ", the hidden size");
    }
  }
}

std::optional<RopeScaling> read_scaling(const JsonValue& scaling) {
  const auto kind_field = scaling.find("rope_type") ? scaling.at("rope_type") : scaling.at("type");
  const std::string kind = kind_field.text();
  if (kind == "default" || kind == "dynamic") return std::nullopt;
  RopeScaling result;
  if (kind != "linear" && kind != "llama3") {
    kind_field.fail("one of default, linear, llama3, dynamic");
  }
  result.factor = scaling.at("factor").number(1.0, kMaxNumber);
  if (kind == "linear") return result;
  result.kind = RopeScaling::Kind::llama3;
  result.low_frequency_factor = positive(scaling.at("low_freq_factor"));
  const JsonValue high = scaling.at("high_freq_factor");
  result.high_frequency_factor = positive(high);
  if (result.high_frequency_factor <= result.low_frequency_factor) {
    high.fail("a number above low_freq_factor");
  }
  result.original_context = scaling.at("original_max_position_embeddings").integer(1, kMaxSize);
  return result;
}

void read_rope(const JsonValue& root, const Dialect& dialect, Transformer& t) {
  if (dialect.model_type == "chatglm") {
    if (const auto ratio = root.find("rope_ratio")) {
      t.rope_theta = kPlainRopeTheta * positive(*ratio, 1e12);
    }
    return;
  }
  // Newer files keep both in one object.
  const std::optional<JsonValue> together = root.find("rope_parameters");
  const JsonValue& holder = together ? *together : root;
  if (const auto theta = holder.find("rope_theta")) t.rope_theta = positive(*theta);
  if (together && (together->find("rope_type") || together->find("type"))) {
    t.rope_scaling = read_scaling(*together);
  } else if (const auto scaling = root.find("rope_scaling")) {
    t.rope_scaling = read_scaling(*scaling);
  }
}

void expect_absent(const JsonValue& root, std::string_view key) {
  if (const auto field = root.find(key); field && field->boolean()) {
    field->fail("false: biases are not supported in the Llama family");
  }
}

void read_llama_switches(const JsonValue& root) {
  for (const std::string_view key : {"attention_bias", "mlp_bias", "bias"}) {
    expect_absent(root, key);
  }
  if (const auto activation = root.find("hidden_act"); activation && activation->text() != "silu") {
    activation->fail("\"silu\"");
  }
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

Transformer parse_config_json(std::string_view text, std::string_view source) {
  const JsonDocument document(text, source, "correct the file or use another model",
                              {.bytes = std::size_t{1} << 20U, .depth = 32});
  const JsonValue root = document.root();
  const JsonValue type_field = root.at("model_type");
  const Dialect& dialect = find_dialect(type_field.text(), type_field);

  Transformer t;
  const std::optional<JsonValue> name = root.find("tandem_name");
  t.name = name ? name->text(256) : name_from(source);
  t.family = dialect.family;
  read_sizes(root, dialect, t);
  t.tied_embeddings = flag(root, "tie_word_embeddings", dialect.tied_by_default);
  t.norm_epsilon = dialect.default_epsilon;
  if (const auto epsilon = dialect.epsilon.empty() ? std::nullopt : root.find(dialect.epsilon)) {
    t.norm_epsilon = positive(*epsilon, 0.5);
  } else if (const auto own = root.find("tandem_norm_epsilon")) {
    t.norm_epsilon = positive(*own, 0.5);
  }
  if (dialect.family == Family::llama || dialect.family == Family::glm) {
    read_rope(root, dialect, t);
  }
  if (dialect.family == Family::llama) read_llama_switches(root);
  read_tokens(root, t);
  t.validate();
  return t;
}

std::string to_config_json(const Transformer& t) {
  const std::string_view model_type = model_type_of(t.family);
  const auto* dialect = std::find_if(std::begin(kDialects), std::end(kDialects),
                                     [&](const Dialect& d) { return d.model_type == model_type; });
  nlohmann::ordered_json json;
  const auto put = [&](std::string_view key, const auto& value) {
    if (!key.empty()) json[std::string(key)] = value;
  };
  put("tandem_name", t.name);
  put("model_type", std::string(model_type));
  put(dialect->layers, t.layers);
  put(dialect->hidden, t.hidden);
  put(dialect->heads, t.heads);
  put(dialect->kv_heads, t.kv_heads);
  put(dialect->head_dim, t.head_dim);
  put(dialect->intermediate, t.intermediate);
  put(dialect->vocab, t.vocab);
  put(dialect->context, t.max_context);
  put(dialect->epsilon.empty() ? "tandem_norm_epsilon" : dialect->epsilon, t.norm_epsilon);
  put("tie_word_embeddings", t.tied_embeddings);
  if (t.family == Family::llama || t.family == Family::glm) {
    put("rope_theta", t.rope_theta);
    nlohmann::ordered_json scaling;  // null: none
    if (t.rope_scaling) {
      const RopeScaling& s = *t.rope_scaling;
      const bool linear = s.kind == RopeScaling::Kind::linear;
      scaling["rope_type"] = linear ? "linear" : "llama3";
      scaling["factor"] = s.factor;
      if (!linear) {
        scaling["low_freq_factor"] = s.low_frequency_factor;
        scaling["high_freq_factor"] = s.high_frequency_factor;
        scaling["original_max_position_embeddings"] = s.original_context;
      }
    }
    put("rope_scaling", scaling);
  }
  if (t.bos_token >= 0) put("bos_token_id", t.bos_token);
  if (!t.eos_tokens.empty()) put("eos_token_id", t.eos_tokens);
  return to_text(json);
}

}  // namespace tandem::model
