#pragma once

// The geometry of a transformer, decoder or encoder, as Hugging Face's `config.json` states it.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/range.hpp"
#include "model/base/units.hpp"
#include "model/transformer/architecture.hpp"
#include "model/transformer/cache_format.hpp"
#include "model/transformer/experts.hpp"
#include "model/transformer/latent_attention.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::model {

// Upper limit of a dimension, a context or a token: the capacity of all file formats.
inline constexpr std::int64_t kMaxSize = std::numeric_limits<std::int32_t>::max();

// Element types of unquantised files.
enum class DType { f32, f16, bf16 };

[[nodiscard]] std::string_view to_string(DType dtype);  // "F32", "F16", "BF16": safetensors' names
[[nodiscard]] std::int64_t size_of(DType dtype);        // bytes an element

// Position scaling of RoPE. `linear` divides positions by `factor` (Chen et al. 2023). `llama3` is
// Llama 3.1's frequency-dependent rule (low/high frequency factors, original context). `yarn` (Peng
// et al. 2023) divides frequencies that turn less than `slow_turns` times in the original context
// by `factor`, keeps those that turn more than `fast_turns` times, and interpolates linearly, by
// pairs, between. `longrope` (Ding et al. 2024) divides each frequency by its own factor: from
// long_factors for runs that reserve more positions than the original context, else from
// short_factors.
struct RopeScaling {
  enum class Kind { linear, llama3, yarn, longrope };
  Kind kind = Kind::linear;
  double factor = 1.0;
  double low_frequency_factor = 1.0;
  double high_frequency_factor = 4.0;
  std::int64_t original_context = 8192;
  double fast_turns = 32.0;
  double slow_turns = 1.0;
  bool whole_pairs = true;  // yarn: bounds are rounded to whole pairs
  // 32 bits, as in files. Cosines and sines are multiplied by attention_factor.
  float attention_factor = 1.0F;
  std::vector<float> short_factors{};  // [rotated / 2]
  std::vector<float> long_factors{};
  bool operator==(const RopeScaling&) const = default;
};

struct Transformer {
  std::string name{};
  Family family = Family::llama;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;         // query heads
  std::int64_t kv_heads = 0;      // key/value heads; divides `heads`
  std::int64_t head_dim = 0;      // hidden / heads unless config.json says otherwise
  std::int64_t intermediate = 0;  // FFN columns; with experts, of each
  std::int64_t vocab = 0;
  std::int64_t max_context = 0;  // tokens
  bool tied_embeddings = false;  // LM head shares the embedding matrix
  Activation activation = Activation::silu;
  std::int64_t token_types = 0;  // rows of a learned table; a text is of type 0. 0: no table
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling{};
  std::int64_t rotary_dims = 0;  // number of first dimensions of a head that are rotated; 0: all
  // Attention of some layers sees the last `window` positions only, a row's own included.
  std::int64_t window = 0;         // 0: of no layer
  std::vector<bool> windowed{};    // by layer; empty: none is
  double window_rope_theta = 0.0;  // base of windowed layers, without scaling; 0: the others'
  std::vector<bool> unrotated{};   // by layer: those without positions; empty: none is
  double attention_scale = 0.0;    // factor of scores; 0: 1 / sqrt(head_dim)
  double embedding_scale = 1.0;    // embedding times this
  double residual_scale = 1.0;     // factor of a block's contribution to the residual stream
  double logit_divisor = 1.0;      // logits divided by this
  double score_cap = 0.0;          // c tanh(x / c) of scores; 0: no cap
  // Queries at position p are multiplied by 1 + query_growth ln(1 + floor(p / original context)).
  double query_growth = 0.0;
  double logit_cap = 0.0;                   // the same for logits, after the division
  std::int64_t bos_token = -1;              // -1: none
  std::vector<std::int64_t> eos_tokens{};   // empty: none
  std::optional<Experts> experts{};         // none: every layer has one FFN
  std::optional<LatentAttention> latent{};  // none: keys and values of each head are cached
  // How the published weights are quantised, as config.json names it; empty: they are not. Such a
  // model can be planned, in any format, but its files are not read.
  std::string quantisation{};
  // Formats of weights in memory, on disk and on the wire: a choice that config.json does not
  // contain.
  WeightFormats formats{};
  // Type of cached keys and values: also a choice.
  CacheFormat cache = CacheFormat::f32;

  // Throws Error, naming the field, its value, what is expected and the remedy, unless every size
  // is positive and at most 2^31 - 1, kv_heads divides heads, head_dim is even, experts and latent
  // attention are complete and consistent, the rest is finite,
  // and rows are whole blocks of the formats (hidden; head_dim, for `out`; intermediate).
  void validate() const;
  // Throws Error, naming the model and what it has, for what can be planned and simulated, but not
  // executed: experts, latent attention, quantised files, formats without kernels.
  void require_executable() const;

  [[nodiscard]] const Architecture& architecture() const { return architecture_of(family); }

  // Returns the number of query heads per key/value head.
  [[nodiscard]] std::int64_t group() const { return heads / kv_heads; }
  // Returns the number of positions, up to its own, that a row of `layer` sees; 0: all.
  [[nodiscard]] std::int64_t window_of(std::int32_t layer) const {
    return layer >= 0 && static_cast<std::size_t>(layer) < windowed.size() &&
                   windowed[static_cast<std::size_t>(layer)]
               ? window
               : 0;
  }
  // Returns whether queries and keys of `layer` are rotated.
  [[nodiscard]] bool rotates(std::int32_t layer) const {
    return !architecture().learned() &&
           !(layer >= 0 && static_cast<std::size_t>(layer) < unrotated.size() &&
             unrotated[static_cast<std::size_t>(layer)]);
  }
  // Returns whether all layers take the same time.
  [[nodiscard]] bool has_uniform_layers() const;
  // Returns the number of rotated dimensions of a head.
  [[nodiscard]] std::int64_t rotated() const { return rotary_dims > 0 ? rotary_dims : head_dim; }
  // Returns whether a text of `positions`, including tokens to come, is rotated by long_factors.
  [[nodiscard]] bool rotates_long(std::int64_t positions) const {
    return rope_scaling && rope_scaling->kind == RopeScaling::Kind::longrope &&
           positions > rope_scaling->original_context;
  }
  // Returns the number of cosines and sines that a row needs: those of a head, twice if windowed
  // layers have their own base.
  [[nodiscard]] std::int64_t angle_floats() const {
    return architecture().learned() ? 0 : rotated() * (window_rope_theta > 0.0 ? 2 : 1);
  }
  // Returns the layer that stands for all where one does: the first with experts, or 0.
  [[nodiscard]] std::int32_t usual_layer() const;
  // Returns the number of dimensions of a head that the query buffer, the attention buffer and the
  // rows of `out` have: head_dim, or those of latent attention in its absorbed form.
  [[nodiscard]] std::int64_t query_dims() const {
    return latent ? latent->plain + latent->rotated + latent->rank + latent->rotated : head_dim;
  }
  [[nodiscard]] std::int64_t attended_dims() const {
    return latent ? latent->rank + latent->value : head_dim;
  }
  [[nodiscard]] std::int64_t out_dims() const { return latent ? latent->value : head_dim; }
  // Returns the numbers that the cache of a device with these heads keeps of a token and layer:
  // keys and values of its key/value heads, or the whole latent row. 0 without heads.
  [[nodiscard]] std::int64_t cached_numbers(Range query_heads) const;

  // FFN columns of one layer on a device.
  struct FfnColumns {
    std::int64_t routed = 0;  // of each expert
    std::int64_t common = 0;  // of the FFN or the shared expert that all rows use
    bool operator==(const FfnColumns&) const = default;
  };
  // Returns the FFN columns of `layer` for columns [a, b) of a share, which are those of every
  // expert. Of an FFN of another width W, a shared expert or a layer without experts, they are
  // columns [a W / C, b W / C), rounded down, where C is `intermediate`: shares that cover [0, C)
  // once cover every FFN once.
  [[nodiscard]] FfnColumns ffn_columns(std::int32_t layer, Range columns) const;
  // Returns the FFN activations of one row in `layer`: columns of the experts it uses, and others.
  [[nodiscard]] std::int64_t active_columns(std::int32_t layer, Range columns) const;
  // Returns a number that the length of every row of `matrix` is a multiple of, the largest.
  [[nodiscard]] std::int64_t row_unit(WeightMatrix matrix) const;

  // Returns the number of FFN matrices: 3 with a gate (SwiGLU), 2 without.
  [[nodiscard]] std::int64_t ffn_matrices() const;
  // Returns the key/value heads that `query_heads` attend to. If a range is not a multiple of the
  // group, or with more devices than key/value heads, neighbours hold copies of one head: with 8
  // query and 2 key/value heads, query heads 3 to 5 attend to both.
  [[nodiscard]] Range kv_heads_for(Range query_heads) const;

  // Returns the rows of the learned table of positions; 0 if there is none.
  [[nodiscard]] std::int64_t position_rows() const;
  // Returns how many rows are summed for a token's embedding: of vocabulary, positions, token
  // types.
  [[nodiscard]] std::int64_t embedded_rows() const;
  // Returns the rows of the LM head: the vocabulary, or 0 for an encoder.
  [[nodiscard]] std::int64_t head_rows() const { return architecture().generates() ? vocab : 0; }

  // Return the parameters of one layer's attention and FFN, of both ends, and of the whole model.
  // Attention and FFN count the norm in front of them, and matrices and biases for the given heads
  // (columns). A bias of a sum over heads or columns counts with the first of them. Without heads
  // (columns) the result is 0, or with NormPlace::after the norm, which every device needs that
  // continues the residual stream. Every device with heads or columns counts what it cannot split:
  // latent attention's compressing matrices and the router of experts.
  [[nodiscard]] std::int64_t attention_parameters(Range query_heads, std::int32_t layer = 0) const;
  [[nodiscard]] std::int64_t ffn_parameters(Range columns, std::int32_t layer = 0) const;
  [[nodiscard]] std::int64_t embedding_parameters() const;
  // Returns those of the final norm and the LM head (0 rows if it is tied, or there is none).
  [[nodiscard]] std::int64_t head_parameters() const;
  [[nodiscard]] std::int64_t parameters() const;
  // Returns the parameters without the experts that a token does not use. Both ends count.
  [[nodiscard]] std::int64_t active_parameters() const;

  // Returns the format in `layer`; the ends have none, whatever `layer` is.
  [[nodiscard]] WeightFormat format_of(WeightMatrix matrix, std::int32_t layer) const {
    return formats.of(
        matrix == WeightMatrix::head && tied_embeddings ? WeightMatrix::embedding : matrix, layer);
  }
  // Returns every format of a matrix, once.
  [[nodiscard]] std::vector<WeightFormat> formats_used() const;
  // Returns the unit of a device's FFN columns, except the last device's: the longest block of
  // `down`.
  [[nodiscard]] std::int64_t column_block() const;
  // Returns the columns of `out` that a device with these heads stores in `layer`: theirs, extended
  // to whole blocks of the format.
  [[nodiscard]] Range out_columns(std::int32_t layer, Range query_heads) const;
  // Returns the unit of heads whose multiples need no such extension: lcm(head_dim, block) /
  // head_dim.
  [[nodiscard]] std::int64_t head_unit() const;
  // Return the bytes of one layer's attention and FFN, as above, in their formats; columns that end
  // within a block count the whole block.
  [[nodiscard]] std::int64_t attention_bytes(std::int32_t layer, Range query_heads) const;
  [[nodiscard]] std::int64_t ffn_bytes(std::int32_t layer, Range columns) const;
  [[nodiscard]] std::int64_t embedding_bytes() const;
  [[nodiscard]] std::int64_t head_bytes() const;
  // Returns the bytes of the head that are not rows of the vocabulary: the final norm.
  [[nodiscard]] std::int64_t final_norm_bytes() const;
  // Returns the bytes of one row of the vocabulary.
  [[nodiscard]] std::int64_t embedding_row_bytes() const;
  [[nodiscard]] std::int64_t head_row_bytes() const;

  // Returns the model of the first `count` layers.
  [[nodiscard]] Transformer first_layers(std::int64_t count) const;

  bool operator==(const Transformer&) const = default;
};

// Parses the contents of a Hugging Face `config.json`. `source` names it in messages; `name` is the
// one that to_config_json wrote, else the file's name without folder and ".json" ("config.json":
// the folder's name). Model types: llama, mistral, internlm2, gpt2, opt, bert, distilbert, chatglm,
// glm. A sliding window below max_position_embeddings limits max_context, as up to there it equals
// full attention (`use_sliding_window` false: no window); rope scaling "dynamic" is dropped, as it
// acts beyond max_context only. Absent fields have the defaults of Hugging Face's class, except
// that no token is assumed. Throws Error (field, value, expected, remedy) for bad JSON; a missing,
// ill-typed or duplicate field; an unknown `model_type` or rope scaling; an architecture without
// the head of a language model; biases, activations, orders of norms and the like that the family
// does not have; and every other field unless it is known to change nothing (listed in
// config_keys.cpp).
[[nodiscard]] Transformer parse_config_json(std::string_view text, std::string_view source);

// Returns the config JSON of `transformer`: parse_config_json restores an equal value, except for
// the formats of weights and cache, which config.json does not contain.
[[nodiscard]] std::string to_config_json(const Transformer& transformer);

// A field of config.json in two models, values as JSON ("null": absent).
struct FieldDifference {
  std::string field;
  std::string first;
  std::string second;
  bool operator==(const FieldDifference&) const = default;
};

// Returns the differences of two models in the order of to_config_json: all its fields except the
// name, which changes no result; formats are not compared.
[[nodiscard]] std::vector<FieldDifference> differences(const Transformer& first,
                                                       const Transformer& second);

}  // namespace tandem::model
