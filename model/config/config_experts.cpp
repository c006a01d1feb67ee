#include "model/config/config_experts.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <vector>

#include "model/config/config_fields.hpp"

namespace tandem::model {
namespace {

constexpr std::size_t kMostLayers = 65536;

std::int64_t required(const JsonValue& root, std::string_view key) {
  return root.at(key).integer(1, kMaxSize);
}

// 0 and null: none.
std::int64_t size_or_none(const JsonValue& root, std::string_view key) {
  const auto field = root.find(key);
  return field ? field->integer(0, kMaxSize) : 0;
}

bool flag(const JsonValue& root, std::string_view key) {
  const auto field = root.find(key);
  return field && field->boolean();
}

// Returns `is_set` of each entry of a list with one entry a layer.
template <class IsSet>
std::vector<bool> layer_flags(const JsonValue& list, const Transformer& t, const IsSet& is_set) {
  if (list.size(kMostLayers) != static_cast<std::size_t>(t.layers))
    list.fail("one for each of the " + std::to_string(t.layers) + " layers");
  std::vector<bool> flags;
  for (std::size_t i = 0; i < static_cast<std::size_t>(t.layers); ++i)
    flags.push_back(is_set(list.at(i)));
  return flags;
}

// Returns which layers' type is `set`, in a list of `set` and `clear`.
std::vector<bool> layers_of_type(const JsonValue& types, const Transformer& t, std::string_view set,
                                 std::string_view clear) {
  return layer_flags(types, t, [&](const JsonValue& type) {
    const std::string name = type.text();
    if (name != set && name != clear)
      type.fail('"' + std::string(set) + "\" or \"" + std::string(clear) + '"');
    return name == set;
  });
}

template <class IsDense>
std::vector<bool> dense_where(const Transformer& t, const IsDense& is_dense) {
  std::vector<bool> dense;
  for (std::int64_t layer = 0; layer < t.layers; ++layer) dense.push_back(is_dense(layer));
  return dense;
}

// Qwen: a layer has experts unless it is listed, at every decoder_sparse_step-th layer.
void read_qwen_experts(const JsonValue& root, Transformer& t, Experts& e) {
  e.count = required(root, "num_experts");
  e.chosen = required(root, "num_experts_per_tok");
  e.shared = size_or_none(root, "shared_expert_intermediate_size");
  e.shared_gate = e.shared > 0;
  const std::int64_t step = size_of_field(root, "decoder_sparse_step").value_or(1);
  std::vector<std::int64_t> listed;
  if (const auto only = root.find("mlp_only_layers")) {
    for (std::size_t i = 0; i < only->size(kMostLayers); ++i)
      listed.push_back(only->at(i).integer(0, t.layers - 1));
  }
  e.dense_layers = dense_where(t, [&](std::int64_t layer) {
    return (layer + 1) % step != 0 || std::ranges::find(listed, layer) != listed.end();
  });
  e.dense = size_or_none(root, "intermediate_size");
}

// DeepSeek and GLM: the first layers have no experts; shared experts have the routed ones' width.
void read_deepseek_experts(const JsonValue& root, Transformer& t, Experts& e) {
  e.count = required(root, "n_routed_experts");
  if (const auto again = root.find("num_experts"); again && again->integer(0, kMaxSize) != e.count)
    again->fail(std::to_string(e.count) + ", as n_routed_experts has it");
  e.chosen = required(root, "num_experts_per_tok");
  const std::int64_t shared = size_or_none(root, "n_shared_experts");
  if (shared > kMaxSize / t.intermediate)
    root.at("n_shared_experts").fail("a smaller number of shared experts");
  e.shared = shared * t.intermediate;
  const auto scoring = root.find("scoring_func");
  e.router_bias = t.family == Family::glm4_moe || (scoring && scoring->text() == "sigmoid");
  const std::int64_t first = size_or_none(root, "first_k_dense_replace");
  const std::int64_t every = size_of_field(root, "moe_layer_freq").value_or(1);
  if (const auto types = root.find("mlp_layer_types")) {
    e.dense_layers = layers_of_type(*types, t, "dense", "sparse");
  } else {
    e.dense_layers =
        dense_where(t, [&](std::int64_t layer) { return layer < first || layer % every != 0; });
  }
  e.dense = size_or_none(root, "intermediate_size");
}

// Llama 4: every interleave_moe_layer_step-th layer has experts, and one shared expert of the same
// width. Most layers attend within chunks; up to the first chunk's end that is full attention.
void read_llama4(const JsonValue& root, Transformer& t, Experts& e) {
  e.count = required(root, "num_local_experts");
  e.chosen = required(root, "num_experts_per_tok");
  e.shared = t.intermediate;
  e.dense = size_or_none(root, "intermediate_size_mlp");
  const std::int64_t step = size_of_field(root, "interleave_moe_layer_step").value_or(1);
  e.dense_layers = dense_where(t, [&](std::int64_t layer) { return (layer + 1) % step != 0; });
  if (const auto chunk = size_of_field(root, "attention_chunk_size"))
    t.max_context = std::min(t.max_context, *chunk);
}

void read_local_experts(const JsonValue& root, Transformer& t, Experts& e) {
  e.count = required(root, "num_local_experts");
  // gpt-oss has both names.
  const auto other = size_of_field(root, "experts_per_token");
  e.chosen =
      other && !root.find("num_experts_per_tok") ? *other : required(root, "num_experts_per_tok");
  if (other && *other != e.chosen)
    root.at("experts_per_token").fail(std::to_string(e.chosen) + ", as num_experts_per_tok has it");
  e.router_bias = t.family == Family::gpt_oss || flag(root, "use_routing_bias");
  if (size_or_none(root, "shared_intermediate_size") > 0)
    root.at("shared_intermediate_size").fail("0: no shared expert");
  const auto kinds = root.find("attn_type_list");
  for (std::size_t i = 0; kinds && i < kinds->size(kMostLayers); ++i) {
    if (kinds->at(i).integer(0, 1) == 0) kinds->at(i).fail("1: softmax attention in every layer");
  }
}

// As write_experts has written them.
Experts written_experts(const JsonValue& json, const Transformer& t) {
  json.expect_keys(
      {"count", "chosen", "shared", "dense", "dense_layers", "router_bias", "shared_gate"});
  Experts e;
  e.count = required(json, "count");
  e.chosen = required(json, "chosen");
  e.shared = size_or_none(json, "shared");
  e.dense = size_or_none(json, "dense");
  e.router_bias = flag(json, "router_bias");
  e.shared_gate = flag(json, "shared_gate");
  if (const auto layers = json.find("dense_layers"))
    e.dense_layers =
        layer_flags(*layers, t, [](const JsonValue& layer) { return layer.boolean(); });
  return e;
}

constexpr std::array<std::string_view, 8> kQwenKeys{
    "tandem_experts",    "num_experts",          "num_experts_per_tok",
    "mlp_only_layers",   "decoder_sparse_step",  "shared_expert_intermediate_size",
    "intermediate_size", "moe_intermediate_size"};
constexpr std::array<std::string_view, 22> kDeepseekKeys{"tandem_experts",
                                                         "n_routed_experts",
                                                         "num_experts_per_tok",
                                                         "n_shared_experts",
                                                         "scoring_func",
                                                         "moe_layer_freq",
                                                         "mlp_layer_types",
                                                         "first_k_dense_replace",
                                                         "intermediate_size",
                                                         "q_lora_rank",
                                                         "kv_lora_rank",
                                                         "qk_nope_head_dim",
                                                         "qk_rope_head_dim",
                                                         "v_head_dim",
                                                         "index_n_heads",
                                                         "index_head_dim",
                                                         "index_topk",
                                                         "indexer_types",
                                                         "head_dim",
                                                         "partial_rotary_factor",
                                                         "layer_types",
                                                         "num_experts"};
constexpr std::array<std::string_view, 6> kLlama4Keys{
    "tandem_experts",        "num_local_experts",         "num_experts_per_tok",
    "intermediate_size_mlp", "interleave_moe_layer_step", "attention_chunk_size"};
constexpr std::array<std::string_view, 8> kLocalKeys{
    "tandem_experts",   "num_local_experts",        "num_experts_per_tok", "experts_per_token",
    "use_routing_bias", "shared_intermediate_size", "attn_type_list",      "partial_rotary_factor"};

struct ExpertsRow {
  Family family;
  std::span<const std::string_view> keys;
  void (*read)(const JsonValue& root, Transformer& t, Experts& e);
};
constexpr std::array kRows{ExpertsRow{Family::mixtral, kLocalKeys, read_local_experts},
                           ExpertsRow{Family::qwen2_moe, kQwenKeys, read_qwen_experts},
                           ExpertsRow{Family::qwen3_moe, kQwenKeys, read_qwen_experts},
                           ExpertsRow{Family::gpt_oss, kLocalKeys, read_local_experts},
                           ExpertsRow{Family::deepseek, kDeepseekKeys, read_deepseek_experts},
                           ExpertsRow{Family::glm4_moe, kDeepseekKeys, read_deepseek_experts},
                           ExpertsRow{Family::llama4, kLlama4Keys, read_llama4},
                           ExpertsRow{Family::minimax_m2, kLocalKeys, read_local_experts}};

const ExpertsRow* experts_row(Family family) {
  const auto* const found = std::ranges::find(kRows, family, &ExpertsRow::family);
  return found == kRows.end() ? nullptr : found;
}

// Layers of one kind need no list, and no width that none of them has.
void simplify(const JsonValue& root, Experts& e) {
  if (std::ranges::find(e.dense_layers, true) == e.dense_layers.end()) {
    e.dense_layers.clear();
    e.dense = 0;
  } else if (e.dense == 0) {
    root.fail_key("model_type", "the width of layers without experts beside those that have them");
  }
}

// The names of the number of experts and of those that a token uses, in the file.
std::string_view first_present(const JsonValue& root, std::span<const std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (root.find(key)) return key;
  }
  return keys.front();
}

}  // namespace

bool has_experts(Family family) { return experts_row(family) != nullptr; }

bool has_latent_attention(Family family) { return family == Family::deepseek; }

void read_latent(const JsonValue& root, Transformer& t) {
  LatentAttention l;
  l.query_rank = size_or_none(root, "q_lora_rank");
  l.rank = required(root, "kv_lora_rank");
  l.plain = required(root, "qk_nope_head_dim");
  l.rotated = required(root, "qk_rope_head_dim");
  l.value = required(root, "v_head_dim");
  l.index_heads = size_or_none(root, "index_n_heads");
  if (l.index_heads > 0) {
    l.index_dims = required(root, "index_head_dim");
    l.index_keys = required(root, "index_topk");
  }
  if (const auto types = root.find("indexer_types")) {
    l.borrowed_index = layers_of_type(*types, t, "shared", "full");
    if (std::ranges::find(l.borrowed_index, true) == l.borrowed_index.end())
      l.borrowed_index.clear();
  }
  const auto layers = root.find("layer_types");
  for (std::size_t i = 0; layers && i < layers->size(kMostLayers); ++i) {
    if (layers->at(i).text() != "deepseek_sparse_attention" || l.index_heads == 0)
      layers->at(i).fail("\"deepseek_sparse_attention\", with an indexer");
  }
  t.head_dim = l.plain + l.rotated;
  if (t.head_dim % 2 != 0)
    root.at("qk_rope_head_dim").fail("an even size of a head, not " + std::to_string(t.head_dim));
  if (l.rotated != t.head_dim) t.rotary_dims = l.rotated;
  t.latent = std::move(l);
}

void read_experts(const JsonValue& root, const Dialect& dialect, Transformer& t) {
  const ExpertsRow* const row = experts_row(dialect.family);
  if (row == nullptr) return;
  Experts e;
  if (const auto written = root.find("tandem_experts")) {
    e = written_experts(*written, t);
  } else {
    row->read(root, t, e);
    simplify(root, e);
    if (e.chosen > e.count) {
      constexpr std::array<std::string_view, 2> kChosen{"num_experts_per_tok", "experts_per_token"};
      root.at(first_present(root, kChosen))
          .fail("at most the " + std::to_string(e.count) + " experts");
    }
  }
  t.experts = std::move(e);
  if (t.latent) return;
  if (const auto part = root.find("partial_rotary_factor")) {
    const auto dims =
        static_cast<std::int64_t>(static_cast<double>(t.head_dim) * part->number(0.0, 1.0));
    if (dims < 2 || dims % 2 != 0)
      part->fail("a share of " + std::to_string(t.head_dim) + " that is an even number");
    if (dims != t.head_dim) t.rotary_dims = dims;
  }
}

void read_quantisation(const JsonValue& root, const JsonValue& file, Transformer& t) {
  auto config = root.find("quantization_config");
  if (!config) config = file.find("quantization_config");
  if (!config) return;
  constexpr std::string_view kKnown[] = {"fp8", "mxfp4", "modelopt", "compressed-tensors"};
  const auto method = config->is_object() ? config->find("quant_method") : std::nullopt;
  const auto algorithm = config->is_object() ? config->find("quant_algo") : std::nullopt;
  std::string name = method ? method->text(256) : algorithm ? algorithm->text(256) : "";
  std::ranges::transform(name, name.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  if (std::ranges::find(kKnown, name) == std::end(kKnown)) {
    config->fail(
        "none: quantised weights are not supported; take the model in F32, F16 or BF16 (models of "
        "fp8, mxfp4, modelopt and compressed-tensors can be planned)");
  }
  t.quantisation = std::move(name);
}

std::span<const std::string_view> expert_keys(Family family) {
  const ExpertsRow* const row = experts_row(family);
  return row == nullptr ? std::span<const std::string_view>() : row->keys;
}

void write_experts(const Transformer& t, nlohmann::ordered_json& json) {
  if (t.latent) {
    const LatentAttention& l = *t.latent;
    if (l.query_rank > 0) json["q_lora_rank"] = l.query_rank;
    json["kv_lora_rank"] = l.rank;
    json["qk_nope_head_dim"] = l.plain;
    json["qk_rope_head_dim"] = l.rotated;
    json["v_head_dim"] = l.value;
    if (l.index_heads > 0) {
      json["index_n_heads"] = l.index_heads;
      json["index_head_dim"] = l.index_dims;
      json["index_topk"] = l.index_keys;
    }
    for (const bool borrowed : l.borrowed_index)
      json["indexer_types"].push_back(borrowed ? "shared" : "full");
  }
  if (t.experts) {
    const Experts& e = *t.experts;
    nlohmann::ordered_json& experts = json["tandem_experts"];
    experts = {{"count", e.count}, {"chosen", e.chosen},           {"shared", e.shared},
               {"dense", e.dense}, {"router_bias", e.router_bias}, {"shared_gate", e.shared_gate}};
    for (const bool dense : e.dense_layers) experts["dense_layers"].push_back(dense);
    if (!t.latent && t.rotary_dims > 0)
      json["partial_rotary_factor"] =
          static_cast<double>(t.rotary_dims) / static_cast<double>(t.head_dim);
  }
  if (!t.quantisation.empty()) json["quantization_config"] = {{"quant_method", t.quantisation}};
}

}  // namespace tandem::model
