#include "exec/weights/source/tensor_names.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using model::Family;

// Without ".weight" and ".bias". "{}" is the layer, "{-}" the layer before it.
struct FamilyTensors {
  // The one that the class with the LM head writes, then others; the head has none.
  std::array<std::string_view, 4> prefixes{};
  std::uint32_t prefix_count = 0;
  Family family = Family::llama;
  bool transposed = false;  // the matrices of layers
  bool fused = false;       // query, key and value are one tensor, in this order
  bool fused_ffn = false;   // gate and up are one tensor, in this order
  bool norms_less_one = false;
  std::string_view embedding{};
  std::string_view positions{};
  std::string_view token_types{};
  std::string_view first_norm{};  // in front of the first layer; empty: named as in every layer
  std::string_view attention_norm{};
  std::string_view query{};
  std::string_view key{};
  std::string_view value{};
  std::string_view out{};
  std::string_view ffn_norm{};
  std::string_view gate{};
  std::string_view up{};
  std::string_view down{};
  std::string_view query_norm{};
  std::string_view key_norm{};
  std::string_view attention_sum_norm{};
  std::string_view ffn_sum_norm{};
  std::string_view final_norm{};  // its layer is the one after the last
  std::string_view head{};
};

// The names of Llama and its successors; a family's blocks do not use those that it lacks.
constexpr FamilyTensors llama_tensors(Family family) {
  // Prefixes of multimodal models come last.
  return {.prefixes = {"model.", "", "language_model.model.", "model.language_model."},
          .prefix_count = 4,
          .family = family,
          .embedding = "embed_tokens",
          .attention_norm = "layers.{}.input_layernorm",
          .query = "layers.{}.self_attn.q_proj",
          .key = "layers.{}.self_attn.k_proj",
          .value = "layers.{}.self_attn.v_proj",
          .out = "layers.{}.self_attn.o_proj",
          .ffn_norm = "layers.{}.post_attention_layernorm",
          .gate = "layers.{}.mlp.gate_proj",
          .up = "layers.{}.mlp.up_proj",
          .down = "layers.{}.mlp.down_proj",
          .query_norm = "layers.{}.self_attn.q_norm",
          .key_norm = "layers.{}.self_attn.k_norm",
          .final_norm = "norm",
          .head = "lm_head"};
}

// Norms are stored less 1, and what attention adds up to has one as well.
constexpr FamilyTensors gemma_tensors(Family family) {
  FamilyTensors row = llama_tensors(family);
  row.norms_less_one = true;
  row.attention_sum_norm = "layers.{}.post_attention_layernorm";
  row.ffn_norm = "layers.{}.pre_feedforward_layernorm";
  row.ffn_sum_norm = "layers.{}.post_feedforward_layernorm";
  return row;
}

constexpr FamilyTensors phi3_tensors() {
  FamilyTensors row = llama_tensors(Family::phi3);
  row.fused = row.fused_ffn = true;
  row.query = row.key = row.value = "layers.{}.self_attn.qkv_proj";
  row.gate = row.up = "layers.{}.mlp.gate_up_proj";
  return row;
}

// The parameter names of Hugging Face transformers' classes.
constexpr FamilyTensors kFamilies[] = {
    llama_tensors(Family::llama),
    llama_tensors(Family::qwen2),
    llama_tensors(Family::qwen3),
    llama_tensors(Family::granite),
    llama_tensors(Family::smollm3),
    gemma_tensors(Family::gemma2),
    gemma_tensors(Family::gemma3),
    phi3_tensors(),
    {.prefixes = {"transformer.", ""},
     .prefix_count = 2,
     .family = Family::gpt2,
     .transposed = true,
     .fused = true,
     .embedding = "wte",
     .positions = "wpe",
     .attention_norm = "h.{}.ln_1",
     .query = "h.{}.attn.c_attn",
     .key = "h.{}.attn.c_attn",
     .value = "h.{}.attn.c_attn",
     .out = "h.{}.attn.c_proj",
     .ffn_norm = "h.{}.ln_2",
     .up = "h.{}.mlp.c_fc",
     .down = "h.{}.mlp.c_proj",
     .final_norm = "ln_f",
     .head = "lm_head"},
    {.prefixes = {"model.decoder.", "decoder.", ""},
     .prefix_count = 3,
     .family = Family::opt,
     .embedding = "embed_tokens",
     .positions = "embed_positions",
     .attention_norm = "layers.{}.self_attn_layer_norm",
     .query = "layers.{}.self_attn.q_proj",
     .key = "layers.{}.self_attn.k_proj",
     .value = "layers.{}.self_attn.v_proj",
     .out = "layers.{}.self_attn.out_proj",
     .ffn_norm = "layers.{}.final_layer_norm",
     .up = "layers.{}.fc1",
     .down = "layers.{}.fc2",
     .final_norm = "final_layer_norm",
     .head = "lm_head"},
    {.prefixes = {"bert.", ""},
     .prefix_count = 2,
     .family = Family::bert,
     .embedding = "embeddings.word_embeddings",
     .positions = "embeddings.position_embeddings",
     .token_types = "embeddings.token_type_embeddings",
     .first_norm = "embeddings.LayerNorm",
     .attention_norm = "encoder.layer.{-}.output.LayerNorm",
     .query = "encoder.layer.{}.attention.self.query",
     .key = "encoder.layer.{}.attention.self.key",
     .value = "encoder.layer.{}.attention.self.value",
     .out = "encoder.layer.{}.attention.output.dense",
     .ffn_norm = "encoder.layer.{}.attention.output.LayerNorm",
     .up = "encoder.layer.{}.intermediate.dense",
     .down = "encoder.layer.{}.output.dense",
     .final_norm = "encoder.layer.{-}.output.LayerNorm"},
    {.prefixes = {"distilbert.", ""},
     .prefix_count = 2,
     .family = Family::distilbert,
     .embedding = "embeddings.word_embeddings",
     .positions = "embeddings.position_embeddings",
     .first_norm = "embeddings.LayerNorm",
     .attention_norm = "transformer.layer.{-}.output_layer_norm",
     .query = "transformer.layer.{}.attention.q_lin",
     .key = "transformer.layer.{}.attention.k_lin",
     .value = "transformer.layer.{}.attention.v_lin",
     .out = "transformer.layer.{}.attention.out_lin",
     .ffn_norm = "transformer.layer.{}.sa_layer_norm",
     .up = "transformer.layer.{}.ffn.lin1",
     .down = "transformer.layer.{}.ffn.lin2",
     .final_norm = "transformer.layer.{-}.output_layer_norm"},
};

const FamilyTensors& tensors_of(const model::Transformer& transformer) {
  transformer.require_executable();
  std::string known;
  for (const FamilyTensors& row : kFamilies) {
    if (row.family == transformer.family) return row;
    known += (known.empty() ? "" : ", ") + std::string(model::to_string(row.family));
  }
  throw Error("model " + transformer.name + ": family " +
              std::string(model::to_string(transformer.family)) + ", expected one of " + known +
              "; models of this family can be planned and simulated only");
}

// The tensor's stem and which of its two parameters is meant.
struct Pattern {
  std::string_view stem{};
  std::string_view parameter = ".weight";
  bool layer_matrix = false;
  bool norm = false;
};

Pattern bias(std::string_view stem) { return {.stem = stem, .parameter = ".bias"}; }
Pattern matrix(std::string_view stem) { return {.stem = stem, .layer_matrix = true}; }
Pattern norm(std::string_view stem) { return {.stem = stem, .norm = true}; }

// The part of a fused tensor that a weight is: the rows before it, and of all.
struct FusedPart {
  std::int64_t first = 0;
  std::int64_t all = 0;
};

std::optional<FusedPart> part_of(const FamilyTensors& row, const model::Transformer& t,
                                 WeightName weight) {
  const std::int64_t q = t.heads * t.head_dim;
  const std::int64_t kv = t.kv_heads * t.head_dim;
  switch (weight) {
    case WeightName::query:
    case WeightName::query_bias:
      if (row.fused) return FusedPart{0, q + 2 * kv};
      break;
    case WeightName::key:
    case WeightName::key_bias:
      if (row.fused) return FusedPart{q, q + 2 * kv};
      break;
    case WeightName::value:
    case WeightName::value_bias:
      if (row.fused) return FusedPart{q + kv, q + 2 * kv};
      break;
    case WeightName::gate:
      if (row.fused_ffn) return FusedPart{0, 2 * t.intermediate};
      break;
    case WeightName::up:
      if (row.fused_ffn) return FusedPart{t.intermediate, 2 * t.intermediate};
      break;
    default:
      break;
  }
  return std::nullopt;
}

Pattern pattern_of(const FamilyTensors& row, WeightName weight, std::int32_t layer) {
  const std::string_view attention_norm =
      layer == 0 && !row.first_norm.empty() ? row.first_norm : row.attention_norm;
  switch (weight) {
    case WeightName::embedding:
      return {.stem = row.embedding};
    case WeightName::positions:
      return {.stem = row.positions};
    case WeightName::token_types:
      return {.stem = row.token_types};
    case WeightName::attention_norm:
      return norm(attention_norm);
    case WeightName::attention_norm_bias:
      return bias(attention_norm);
    case WeightName::query:
      return matrix(row.query);
    case WeightName::query_bias:
      return bias(row.query);
    case WeightName::key:
      return matrix(row.key);
    case WeightName::key_bias:
      return bias(row.key);
    case WeightName::value:
      return matrix(row.value);
    case WeightName::value_bias:
      return bias(row.value);
    case WeightName::out:
      return matrix(row.out);
    case WeightName::out_bias:
      return bias(row.out);
    case WeightName::ffn_norm:
      return norm(row.ffn_norm);
    case WeightName::ffn_norm_bias:
      return bias(row.ffn_norm);
    case WeightName::gate:
      return matrix(row.gate);
    case WeightName::gate_bias:
      return bias(row.gate);
    case WeightName::up:
      return matrix(row.up);
    case WeightName::up_bias:
      return bias(row.up);
    case WeightName::down:
      return matrix(row.down);
    case WeightName::down_bias:
      return bias(row.down);
    case WeightName::final_norm:
      return norm(row.final_norm);
    case WeightName::final_norm_bias:
      return bias(row.final_norm);
    case WeightName::head:
      return {.stem = row.head};
    case WeightName::query_norm:
      return norm(row.query_norm);
    case WeightName::key_norm:
      return norm(row.key_norm);
    case WeightName::attention_sum_norm:
      return norm(row.attention_sum_norm);
    case WeightName::ffn_sum_norm:
      return norm(row.ffn_sum_norm);
  }
  throw std::logic_error("weight name out of range");
}

void replace(std::string& text, std::string_view what, std::int64_t number) {
  if (const std::size_t at = text.find(what); at != std::string::npos)
    text.replace(at, what.size(), std::to_string(number));
}

}  // namespace

TensorPlace place_of(const model::Transformer& transformer, WeightName weight, std::int32_t layer,
                     std::int64_t outputs) {
  const FamilyTensors& row = tensors_of(transformer);
  const Pattern pattern = pattern_of(row, weight, layer);
  require(!pattern.stem.empty(), "a weight that the family has");
  const std::int64_t number = layer < 0 ? transformer.layers : layer;
  TensorPlace place;
  place.tensor = weight == WeightName::head ? "" : std::string(row.prefixes.front());
  place.tensor += pattern.stem;
  place.tensor += pattern.parameter;
  replace(place.tensor, "{}", number);
  replace(place.tensor, "{-}", number - 1);
  place.outputs = outputs;
  place.transposed = row.transposed && pattern.layer_matrix;
  place.less_one = row.norms_less_one && pattern.norm;
  if (const auto part = part_of(row, transformer, weight)) {
    place.first = part->first;
    place.outputs = part->all;
  }
  return place;
}

std::string_view without_prefix(std::string_view tensor, Family family) {
  for (const FamilyTensors& row : kFamilies) {
    if (row.family != family) continue;
    for (const std::string_view prefix : row.prefixes) {
      if (!prefix.empty() && tensor.starts_with(prefix)) return tensor.substr(prefix.size());
    }
  }
  return tensor;
}

std::vector<std::string> other_names(const std::string& tensor) {
  std::vector<std::string> names{tensor};
  for (const FamilyTensors& row : kFamilies) {
    const std::string_view own = row.prefixes.front();
    if (!tensor.starts_with(own)) continue;
    for (std::size_t i = 1; i < row.prefix_count; ++i)
      names.push_back(std::string(row.prefixes.at(i)) + tensor.substr(own.size()));
  }
  const auto renamed = [&](std::string_view from, std::string_view to) {
    if (!tensor.ends_with(from)) return;
    const std::size_t count = names.size();
    for (std::size_t i = 0; i < count; ++i)
      names.push_back(names[i].substr(0, names[i].size() - from.size()) + std::string(to));
  };
  if (tensor == "lm_head.weight") names.emplace_back("language_model.lm_head.weight");
  renamed("LayerNorm.weight", "LayerNorm.gamma");
  renamed("LayerNorm.bias", "LayerNorm.beta");
  names.erase(names.begin());
  return names;
}

}  // namespace tandem::exec
