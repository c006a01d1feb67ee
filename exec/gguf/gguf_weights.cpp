#include "exec/gguf/gguf_weights.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "exec/gguf/gguf_geometry.hpp"
#include "exec/weights/source/layout.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {
namespace {

using model::Family;

// The name, with "{}" for weights in a layer, and whether it is a bias. Names as in gguf-py's
// constants.py.
struct Name {
  std::string_view stem{};
  bool in_layer = true;
  bool bias = false;
};

Name tensor_name_of(WeightName weight, bool fused, bool fused_ffn) {
  switch (weight) {
    case WeightName::embedding:
      return {"token_embd", false};
    case WeightName::positions:
      return {"position_embd", false};
    case WeightName::token_types:
      return {"token_types", false};
    case WeightName::final_norm:
      return {"output_norm", false};
    case WeightName::final_norm_bias:
      return {"output_norm", false, true};
    case WeightName::head:
      return {"output", false};
    case WeightName::attention_norm:
      return {"attn_norm"};
    case WeightName::attention_norm_bias:
      return {"attn_norm", true, true};
    case WeightName::query:
      return {fused ? "attn_qkv" : "attn_q"};
    case WeightName::query_bias:
      return {fused ? "attn_qkv" : "attn_q", true, true};
    case WeightName::key:
      return {fused ? "attn_qkv" : "attn_k"};
    case WeightName::key_bias:
      return {fused ? "attn_qkv" : "attn_k", true, true};
    case WeightName::value:
      return {fused ? "attn_qkv" : "attn_v"};
    case WeightName::value_bias:
      return {fused ? "attn_qkv" : "attn_v", true, true};
    case WeightName::out:
      return {"attn_output"};
    case WeightName::out_bias:
      return {"attn_output", true, true};
    case WeightName::ffn_norm:
      return {"ffn_norm"};
    case WeightName::ffn_norm_bias:
      return {"ffn_norm", true, true};
    case WeightName::gate:
      return {fused_ffn ? "ffn_up" : "ffn_gate"};
    case WeightName::gate_bias:
      return {"ffn_gate", true, true};
    case WeightName::up:
      return {"ffn_up"};
    case WeightName::up_bias:
      return {"ffn_up", true, true};
    case WeightName::down:
      return {"ffn_down"};
    case WeightName::down_bias:
      return {"ffn_down", true, true};
    case WeightName::query_norm:
      return {"attn_q_norm"};
    case WeightName::key_norm:
      return {"attn_k_norm"};
    case WeightName::attention_sum_norm:
      return {"post_attention_norm"};
    case WeightName::ffn_sum_norm:
      return {"post_ffw_norm"};
  }
  throw std::logic_error("weight name out of range");
}

std::optional<model::WeightFormat> format_named(std::string_view type) {
  std::string name(type);
  std::ranges::transform(name, name.begin(), [](char c) {
    return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return model::find_weight_format(name);
}

}  // namespace

std::string gguf_tensor(const model::Transformer& transformer, WeightName weight,
                        std::int32_t layer) {
  const bool phi3 = transformer.family == Family::phi3;
  const Name name = tensor_name_of(weight, transformer.family == Family::gpt2 || phi3, phi3);
  std::string tensor = name.in_layer ? "blk." + std::to_string(layer) + "." : "";
  return tensor.append(name.stem).append(name.bias ? ".bias" : ".weight");
}

bool in_pairs(const model::Transformer& transformer, WeightName weight) {
  return gguf_in_pairs(transformer.family) &&
         (weight == WeightName::query || weight == WeightName::key);
}

GgufWeights::GgufWeights(const GgufFile& file, const model::Transformer& transformer)
    : WeightSource(file.path(), "give a file with all of the model's tensors"),
      transformer_(transformer) {
  for (std::size_t i = 0; i < file.files().size(); ++i) add_file(file.files()[i], file.stamps()[i]);
  for (const auto& [name, place] : file.tensors()) {
    add_tensor(name, {.file = place.file,
                      .dtype = std::string(place.tensor.type.name),
                      .format = format_named(place.tensor.type.name),
                      .shape = place.tensor.shape,
                      .offset = place.tensor.offset,
                      .bytes = place.tensor.bytes});
  }
}

StoredPlace GgufWeights::place_of(const TensorSlice& slice, std::int32_t layer) const {
  StoredPlace place{.tensor = gguf_tensor(transformer_, slice.weight, layer), .shape = slice.shape};
  if (slice.transposed) std::swap(place.shape[0], place.shape[1]);  // [out, in] for all
  if (in_pairs(transformer_, slice.weight)) place.paired_rows = transformer_.head_dim;
  return place;
}

void GgufWeights::check_tensors(const model::Transformer& transformer) const {
  const model::Share all{{0, static_cast<std::int32_t>(transformer.layers)},
                         {0, static_cast<std::int32_t>(transformer.heads)},
                         {0, static_cast<std::int32_t>(transformer.intermediate)},
                         true,
                         true};
  std::set<std::string, std::less<>> used;
  if (gguf_has_rope_factors(transformer.family))  // the geometry has been made of it
    used.insert(std::string(kRopeFactorsTensor));
  if (transformer.family == Family::phi3) {
    used.insert(std::string(kLongFactorsTensor));
    used.insert(std::string(kShortFactorsTensor));
  }
  for (const LayoutBlock& block : layout_of(transformer, all).blocks) {
    for (const TensorSlice& slice : block.slices) {
      const StoredPlace place = place_of(slice, block.layer);
      need_readable(place);
      std::string stored = place.tensor;
      used.insert(std::move(stored));
    }
  }
  for (const std::string& name : names()) {
    if (used.contains(name)) continue;
    throw Error(file_of(name).string() + ": tensor " + model::one_line(name, 120) +
                ": is no weight of a " + std::string(model::to_string(transformer.family)) +
                " model of " + std::to_string(transformer.layers) +
                " layers, so that it would be left out; biases, scales and norms that the family "
                "lacks are not supported");
  }
}

}  // namespace tandem::exec
