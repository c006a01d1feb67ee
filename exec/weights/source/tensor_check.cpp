#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include "exec/weights/source/layout.hpp"
#include "exec/weights/source/safetensors.hpp"
#include "exec/weights/source/tensor_names.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {
namespace {

using model::Family;

// Tensors of Hugging Face's classes that the language model, or the encoder, does not use.
struct Beside {
  std::array<Family, 2> families{};
  std::string_view begin{};  // of the tensor's name, behind the family's prefix
  std::string_view end{};
};

constexpr Beside kBeside[] = {
    // Constants that older versions stored: rotation's frequencies, the mask, position numbers.
    {{Family::llama, Family::phi3}, "layers.", ".self_attn.rotary_emb.inv_freq"},
    {{Family::llama, Family::phi3}, "rotary_emb.inv_freq", ""},
    // Image encoders.
    {{Family::llama, Family::gemma3}, "vision_tower.", ""},
    {{Family::llama, Family::gemma3}, "multi_modal_projector.", ""},
    {{Family::gpt2, Family::gpt2}, "h.", ".attn.bias"},
    {{Family::gpt2, Family::gpt2}, "h.", ".attn.masked_bias"},
    {{Family::bert, Family::distilbert}, "embeddings.position_ids", ""},
    {{Family::bert, Family::bert}, "embeddings.token_type_ids", ""},
    // Heads behind the last hidden state of an encoder.
    {{Family::bert, Family::bert}, "pooler.dense.", ""},
    {{Family::bert, Family::bert}, "cls.", ""},
    {{Family::distilbert, Family::distilbert}, "vocab_transform.", ""},
    {{Family::distilbert, Family::distilbert}, "vocab_layer_norm.", ""},
    {{Family::distilbert, Family::distilbert}, "vocab_projector.", ""},
};

bool is_beside(std::string_view tensor, Family family) {
  return std::ranges::any_of(kBeside, [&](const Beside& one) {
    const auto& [first, second] = one.families;
    return (family == first || family == second) && tensor.starts_with(one.begin) &&
           tensor.ends_with(one.end);
  });
}

// Returns the folder's name of `tensor`; itself if no other name exists.
std::string stored_name(const SafetensorsFolder& weights, const std::string& tensor) {
  if (weights.contains(tensor)) return tensor;
  for (const std::string& other : other_names(tensor)) {
    if (weights.contains(other)) return other;
  }
  return tensor;  // reading it says what is missing
}

}  // namespace

StoredPlace SafetensorsFolder::place_of(const TensorSlice& slice, std::int32_t /*layer*/) const {
  return {.tensor = stored_name(*this, slice.tensor),
          .shape = slice.shape,
          .transposed = slice.transposed,
          .less_one = slice.less_one};
}

void SafetensorsFolder::check_tensors(const model::Transformer& transformer) const {
  const SafetensorsFolder& weights = *this;
  const model::Share all{{0, static_cast<std::int32_t>(transformer.layers)},
                         {0, static_cast<std::int32_t>(transformer.heads)},
                         {0, static_cast<std::int32_t>(transformer.intermediate)},
                         true,
                         true};
  std::set<std::string, std::less<>> used;
  std::string embedding;
  for (const LayoutBlock& block : layout_of(transformer, all).blocks) {
    for (const TensorSlice& slice : block.slices) {
      // Types and shapes too: a later look finds them when other tensors have been sliced.
      const StoredPlace place = weights.place_of(slice, block.layer);
      weights.need_readable(place);
      std::string stored = place.tensor;
      if (slice.weight == WeightName::embedding) embedding = stored;
      used.insert(std::move(stored));
    }
  }
  const std::string head = stored_name(weights, "lm_head.weight");
  for (const std::string& name : weights.names()) {
    if (used.contains(name)) continue;
    if (is_beside(without_prefix(name, transformer.family), transformer.family)) continue;
    std::string subject = weights.file_of(name).string() + ": tensor " + model::one_line(name, 120);
    if (name == head && transformer.architecture().generates()) {
      if (weights.equal(name, embedding)) continue;
      throw Error(subject.append(" differs from ").append(embedding) +
                  ", expected the same as config.json ties them; if the model has a head of its "
                  "own, say \"tie_word_embeddings\": false there");
    }
    throw Error(subject + ": is no weight of a " +
                std::string(model::to_string(transformer.family)) + " model of " +
                std::to_string(transformer.layers) +
                " layers as config.json describes it, so that it would be left out; check that "
                "config.json belongs to these weights, or remove the tensor if it means nothing");
  }
}

}  // namespace tandem::exec
