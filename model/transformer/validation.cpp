// Transformer::validate.

#include <algorithm>
#include <cmath>
#include <iterator>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {
namespace {

constexpr std::int64_t kMaxTokenTypes = 65536;
constexpr std::int64_t kMaxExperts = 65536;
constexpr std::int64_t kMaxLatent = 65536;
// Far beyond any model, and small enough that no product of sizes below overflows 64 bits.
constexpr double kMaxParameters = 1125899906842624.0;  // 2^50

[[noreturn]] void fail(const Transformer& t, const std::string& field, const std::string& value,
                       const std::string& expected) {
  throw Error("model '" + t.name + "': " + field + " is " + value + ", expected " + expected +
              "; correct the model's config.json");
}

void check(bool ok, const Transformer& t, const std::string& field, double value,
           const std::string& expected) {
  if (ok) return;
  std::string text = std::to_string(value);
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    text = std::to_string(static_cast<std::int64_t>(value));
  }
  fail(t, field, text, expected);
}

void check_layers(const Transformer& t, const std::vector<bool>& by_layer,
                  const std::string& field) {
  check(by_layer.empty() || std::ssize(by_layer) == t.layers, t, field,
        static_cast<double>(by_layer.size()), "one entry for each of the layers");
}

// Checks the traits in which families of decoders differ.
void check_traits(const Transformer& t) {
  check_layers(t, t.windowed, "the list of windowed layers");
  check_layers(t, t.unrotated, "the list of layers without positions");
  check(t.query_growth == 0.0 ||
            (t.rope_scaling && t.rope_scaling->kind != RopeScaling::Kind::linear),
        t, "the growth of queries", t.query_growth, "0 without an original context");
  const bool any = std::ranges::find(t.windowed, true) != t.windowed.end();
  check(t.window >= (any ? 1 : 0) && t.window <= kMaxSize, t, "the window of attention",
        static_cast<double>(t.window), "an integer from 1 to 2147483647");
  check(t.rotary_dims >= 0 && t.rotary_dims <= t.head_dim && t.rotary_dims % 2 == 0, t,
        "the number of rotated dimensions", static_cast<double>(t.rotary_dims),
        "an even number up to head_dim");
  const struct {
    const char* name;
    double value;
    bool may_be_zero;
  } numbers[] = {{"the windowed layers' rope_theta", t.window_rope_theta, true},
                 {"the scale of scores", t.attention_scale, true},
                 {"the scale of the embedding", t.embedding_scale, false},
                 {"the scale of residuals", t.residual_scale, false},
                 {"the divisor of logits", t.logit_divisor, false},
                 {"the cap of scores", t.score_cap, true},
                 {"the cap of logits", t.logit_cap, true},
                 {"the growth of queries", t.query_growth, true}};
  for (const auto& number : numbers) {
    check(std::isfinite(number.value) &&
              (number.value > 0.0 || (number.may_be_zero && number.value == 0.0)),
          t, number.name, number.value, "a positive number");
  }
}

void check_rope(const Transformer& t) {
  check(std::isfinite(t.rope_theta) && t.rope_theta > 0.0, t, "rope_theta", t.rope_theta,
        "a positive number");
  if (!t.rope_scaling) return;
  const RopeScaling& scaling = *t.rope_scaling;
  check(std::isfinite(scaling.factor) && scaling.factor >= 1.0, t, "rope_scaling.factor",
        scaling.factor, "a number of at least 1");
  if (scaling.kind == RopeScaling::Kind::linear) return;
  check(scaling.original_context >= 1 && scaling.original_context <= kMaxSize, t,
        "rope_scaling.original_max_position_embeddings",
        static_cast<double>(scaling.original_context), "an integer from 1 to 2147483647");
  check(std::isfinite(scaling.attention_factor) && scaling.attention_factor > 0.0F, t,
        "rope_scaling.attention_factor", scaling.attention_factor, "a positive number");
  if (scaling.kind == RopeScaling::Kind::yarn) {
    check(std::isfinite(scaling.slow_turns) && scaling.slow_turns > 0.0 &&
              std::isfinite(scaling.fast_turns) && scaling.fast_turns >= scaling.slow_turns,
          t, "rope_scaling.beta_slow", scaling.slow_turns,
          "a positive number, and beta_fast one at least as large");
    return;
  }
  if (scaling.kind == RopeScaling::Kind::longrope) {
    for (const auto* factors : {&scaling.short_factors, &scaling.long_factors}) {
      const char* const field = factors == &scaling.short_factors ? "rope_scaling.short_factor"
                                                                  : "rope_scaling.long_factor";
      check(std::ssize(*factors) == t.rotated() / 2, t, field, static_cast<double>(factors->size()),
            std::to_string(t.rotated() / 2) + " numbers, one for each pair that is rotated");
      for (const float factor : *factors)
        check(std::isfinite(factor) && factor > 0.0F, t, field, factor, "positive numbers");
    }
    return;
  }
  check(std::isfinite(scaling.low_frequency_factor) && scaling.low_frequency_factor > 0.0, t,
        "rope_scaling.low_freq_factor", scaling.low_frequency_factor, "a positive number");
  check(std::isfinite(scaling.high_frequency_factor) &&
            scaling.high_frequency_factor > scaling.low_frequency_factor,
        t, "rope_scaling.high_freq_factor", scaling.high_frequency_factor,
        "a number above low_freq_factor");
}

void check_experts(const Transformer& t) {
  if (!t.experts) return;
  const Experts& e = *t.experts;
  const auto size = [&](const std::string& field, std::int64_t value, std::int64_t least,
                        std::int64_t most) {
    check(value >= least && value <= most, t, field, static_cast<double>(value),
          "an integer from " + std::to_string(least) + " to " + std::to_string(most));
  };
  size("the number of experts", e.count, 1, kMaxExperts);
  size("the number of experts a token uses", e.chosen, 1, e.count);
  size("the width of the shared expert", e.shared, 0, kMaxSize);
  check_layers(t, e.dense_layers, "the list of layers without experts");
  const bool mixed = std::ranges::find(e.dense_layers, true) != e.dense_layers.end();
  check(e.dense_layers.empty() || std::ranges::find(e.dense_layers, false) != e.dense_layers.end(),
        t, "the number of layers with experts", 0.0, "at least 1");
  size("the width of layers without experts", e.dense, mixed ? 1 : 0, kMaxSize);
}

void check_latent(const Transformer& t) {
  if (!t.latent) return;
  const LatentAttention& l = *t.latent;
  const auto size = [&](const char* field, std::int64_t value, std::int64_t least) {
    check(value >= least && value <= kMaxLatent, t, field, static_cast<double>(value),
          "an integer from " + std::to_string(least) + " to " + std::to_string(kMaxLatent));
  };
  size("latent attention's rank of queries", l.query_rank, 0);
  size("latent attention's rank of keys and values", l.rank, 1);
  size("latent attention's unrotated part of a head", l.plain, 1);
  size("latent attention's rotated part of a head", l.rotated, 2);
  size("latent attention's value of a head", l.value, 1);
  const std::int64_t some = l.index_heads > 0 ? 1 : 0;
  size("the heads of the indexer", l.index_heads, 0);
  size("the dimensions of the indexer", l.index_dims, some);
  check(l.index_keys >= some && l.index_keys <= kMaxSize, t, "the keys that the indexer chooses",
        static_cast<double>(l.index_keys), "an integer from 1 to 2147483647");
  check(t.heads <= kMaxSize / l.value, t, "heads * the value of a head",
        static_cast<double>(t.heads) * static_cast<double>(l.value),
        "an integer from 1 to 2147483647");
  check_layers(t, l.borrowed_index, "the list of layers that borrow an index");
  check(t.head_dim == l.plain + l.rotated, t, "head_dim", static_cast<double>(t.head_dim),
        "the sum of latent attention's parts (" + std::to_string(l.plain + l.rotated) + ")");
  check(t.kv_heads == t.heads, t, "the number of key/value heads", static_cast<double>(t.kv_heads),
        "the number of heads, as latent attention has");
}

// `rows`: what rows of the matrix are as long as.
void check_format(const Transformer& t, WeightFormat format, const std::string& rows,
                  std::int64_t length) {
  const std::int64_t block = block_of(format).elements;
  if (length % block == 0) return;
  throw Error("model '" + t.name + "': " + rows + " is " + std::to_string(length) +
              ", expected a multiple of " + std::to_string(block) + " for weights in " +
              std::string(to_string(format)) +
              ", whose blocks are that long; use f16, bf16 or f32");
}

void check_formats(const Transformer& t) {
  const auto check_one = [&](WeightMatrix matrix, WeightFormat format) {
    const char* const rows = matrix == WeightMatrix::out    ? "heads * head_dim"
                             : matrix == WeightMatrix::down ? "the intermediate size"
                                                            : "the hidden size";
    check_format(t, format, t.latent || t.experts ? "the length of rows" : rows,
                 t.row_unit(matrix));
  };
  constexpr std::int32_t kNone = -1;
  for (const WeightMatrix matrix : kWeightMatrices) check_one(matrix, t.format_of(matrix, kNone));
  for (const auto& [place, format] : t.formats.exceptions()) {
    check(place.first >= 0 && place.first < t.layers, t, "a layer with formats of its own",
          place.first, "one of the model's layers");
    check_one(place.second, format);
  }
}

// A device keeps whole heads, so every key and value that it has is whole blocks.
void check_cache(const Transformer& t) {
  const std::int64_t block = block_of(t.cache).elements;
  const std::int64_t length = t.latent ? t.latent->cached() : t.head_dim;
  if (length % block == 0) return;
  throw Error("model '" + t.name + "': " + (t.latent ? "the latent row" : "head_dim") + " is " +
              std::to_string(length) + ", expected a multiple of " + std::to_string(block) +
              " for a cache in " + std::string(to_string(t.cache)) +
              ", whose blocks are that long; use '--cache-type f16' or f32");
}

void check_parameter_count(const Transformer& t) {
  const auto d = [](std::int64_t x) { return static_cast<double>(x); };
  const double attention = 2.0 * d(t.heads + t.kv_heads) * d(t.head_dim) * d(t.hidden);
  const double widest = t.experts ? d(t.experts->count) * d(t.intermediate) + d(t.experts->shared) +
                                        d(t.experts->dense)
                                  : d(t.intermediate);
  const double ffn =
      3.0 * d(t.hidden) * widest + (t.experts ? d(t.experts->count) * d(t.hidden) : 0.0);
  double latent = 0.0;
  if (t.latent) {
    const LatentAttention& l = *t.latent;
    const double indexer = d(l.index_heads) * d(l.index_dims);
    latent = d(t.heads) * d(l.plain + l.value) * d(l.rank) + d(t.heads) * d(l.value) * d(t.hidden) +
             (d(t.heads) * d(t.head_dim) + indexer) * d(l.query_rank + t.hidden) +
             d(l.rank + l.rotated + l.query_rank + l.index_dims + l.index_heads) * d(t.hidden);
  }
  const double total = d(t.layers) * (attention + ffn + latent) +
                       (2.0 * d(t.vocab) + d(t.max_context)) * d(t.hidden);
  check(total <= kMaxParameters, t, "the number of parameters", total,
        "at most 2^50 from layers, hidden, heads, intermediate and vocabulary sizes");
}

}  // namespace

void Transformer::require_executable() const {
  std::string has;
  for (const WeightFormat format : formats_used()) {
    if (!is_executed(format)) has = "weights in " + std::string(to_string(format));
  }
  if (!quantisation.empty()) has = "weights quantised by " + quantisation;
  if (latent) has = "latent attention";
  if (experts) has = std::to_string(experts->count) + " experts a layer";
  if (has.empty()) return;
  throw Error("model '" + name + "': has " + has +
              ", expected a dense model in a format that tandem executes: such models can be "
              "planned and simulated only; run another model, as llama-3.2-3b or qwen3-4b");
}

void Transformer::validate() const {
  if (const std::string fault = name.empty() ? "" : fault_of_name(name); !fault.empty())
    throw Error("model '" + one_line(name.substr(0, 64)) + "': a name with " + fault +
                "; rename it");
  const struct {
    const char* name;
    std::int64_t value;
  } sizes[] = {
      {"the number of layers", layers},
      {"the hidden size", hidden},
      {"the number of heads", heads},
      {"the number of key/value heads", kv_heads},
      {"head_dim", head_dim},
      {"the intermediate size", intermediate},
      {"the vocabulary size", vocab},
      {"the context length", max_context},
      {"heads * head_dim", heads > 0 && head_dim > kMaxSize / heads ? -1 : heads * head_dim},
  };
  for (const auto& size : sizes) {
    check(size.value >= 1 && size.value <= kMaxSize, *this, size.name,
          static_cast<double>(size.value), "an integer from 1 to 2147483647");
  }
  check(heads % kv_heads == 0, *this, "the number of key/value heads",
        static_cast<double>(kv_heads),
        "a divisor of the number of heads (" + std::to_string(heads) + ")");
  check(head_dim % 2 == 0, *this, "head_dim", static_cast<double>(head_dim), "an even number");
  check(token_types >= 0 && token_types <= kMaxTokenTypes, *this, "the number of token types",
        static_cast<double>(token_types), "an integer from 0 to 65536");
  check(std::isfinite(norm_epsilon) && norm_epsilon > 0.0 && norm_epsilon < 1.0, *this,
        "norm_epsilon", norm_epsilon, "a number between 0 and 1");
  check_rope(*this);
  check_traits(*this);
  check_experts(*this);
  check_latent(*this);
  check(bos_token >= -1 && bos_token <= kMaxSize, *this, "bos_token_id",
        static_cast<double>(bos_token), "a token id, or none");
  for (const std::int64_t token : eos_tokens) {
    check(token >= 0 && token <= kMaxSize, *this, "eos_token_id", static_cast<double>(token),
          "a token id");
  }
  check_parameter_count(*this);
  check_formats(*this);
  check_cache(*this);
}

}  // namespace tandem::model
