#include "model/transformer/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::model {

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
  }
  throw std::logic_error("dtype out of range");
}

std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
  }
  throw std::logic_error("dtype out of range");
}

namespace {

constexpr std::int64_t kMaxTokenTypes = 65536;
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

std::int64_t norm_parameters(const Transformer& t) {
  return t.architecture().norm_vectors() * t.hidden;
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
    if (matrix == WeightMatrix::out)
      return check_format(t, format, "heads * head_dim", t.heads * t.head_dim);
    if (matrix == WeightMatrix::down)
      return check_format(t, format, "the intermediate size", t.intermediate);
    check_format(t, format, "the hidden size", t.hidden);
  };
  constexpr std::int32_t kNone = -1;
  for (const WeightMatrix matrix : kWeightMatrices) check_one(matrix, t.format_of(matrix, kNone));
  for (const auto& [place, format] : t.formats.exceptions()) {
    check(place.first >= 0 && place.first < t.layers, t, "a layer with formats of its own",
          place.first, "one of the model's layers");
    check_one(place.second, format);
  }
}

void check_parameter_count(const Transformer& t) {
  const auto d = [](std::int64_t x) { return static_cast<double>(x); };
  const double attention = 2.0 * d(t.heads + t.kv_heads) * d(t.head_dim) * d(t.hidden);
  const double ffn = 3.0 * d(t.hidden) * d(t.intermediate);
  const double total =
      d(t.layers) * (attention + ffn) + (2.0 * d(t.vocab) + d(t.max_context)) * d(t.hidden);
  check(total <= kMaxParameters, t, "the number of parameters", total,
        "at most 2^50 from layers, hidden, heads, intermediate and vocabulary sizes");
}

}  // namespace

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
  check(bos_token >= -1 && bos_token <= kMaxSize, *this, "bos_token_id",
        static_cast<double>(bos_token), "a token id, or none");
  for (const std::int64_t token : eos_tokens) {
    check(token >= 0 && token <= kMaxSize, *this, "eos_token_id", static_cast<double>(token),
          "a token id");
  }
  check_parameter_count(*this);
  check_formats(*this);
}

std::int64_t Transformer::ffn_matrices() const { return architecture().gated ? 3 : 2; }

std::int64_t Transformer::position_rows() const {
  return architecture().learned() ? max_context + architecture().position_offset : 0;
}

std::int64_t Transformer::embedded_rows() const {
  return 1 + (architecture().learned() ? 1 : 0) + (token_types > 0 ? 1 : 0);
}

Range Transformer::kv_heads_for(Range query_heads) const {
  const auto g = static_cast<std::int32_t>(group());
  const std::int32_t begin = query_heads.begin / g;
  if (query_heads.empty()) return {begin, begin};
  return {begin, (query_heads.end - 1) / g + 1};
}

std::int64_t Transformer::attention_parameters(Range query_heads) const {
  const Architecture& a = architecture();
  const std::int64_t sum_norm = a.sum_norms ? norm_parameters(*this) : 0;
  if (query_heads.empty()) return sum_norm + (a.post_norm() ? norm_parameters(*this) : 0);
  const std::int64_t q = query_heads.size() * head_dim;
  const std::int64_t kv = kv_heads_for(query_heads).size() * head_dim;
  std::int64_t biases = 0;
  if (a.qkv_bias) biases += q + 2 * kv;
  if (a.out_bias && query_heads.begin == 0) biases += hidden;
  const std::int64_t head_norms = a.head_norms ? 2 * head_dim : 0;
  return 2 * hidden * (q + kv) + biases + head_norms + sum_norm + norm_parameters(*this);
}

std::int64_t Transformer::ffn_parameters(Range columns) const {
  const Architecture& a = architecture();
  const std::int64_t sum_norm = a.sum_norms ? norm_parameters(*this) : 0;
  if (columns.empty()) return sum_norm + (a.post_norm() ? norm_parameters(*this) : 0);
  std::int64_t biases = 0;
  if (a.ffn_bias) biases = (ffn_matrices() - 1) * columns.size();
  if (a.ffn_bias && columns.begin == 0) biases += hidden;
  return ffn_matrices() * hidden * columns.size() + biases + sum_norm + norm_parameters(*this);
}

std::int64_t Transformer::embedding_parameters() const {
  return (vocab + position_rows() + token_types) * hidden;
}

std::int64_t Transformer::head_parameters() const {
  return (tied_embeddings ? 0 : head_rows() * hidden) + norm_parameters(*this);
}

std::int64_t Transformer::parameters() const {
  const Range all_heads{0, static_cast<std::int32_t>(heads)};
  const Range all_columns{0, static_cast<std::int32_t>(intermediate)};
  return layers * (attention_parameters(all_heads) + ffn_parameters(all_columns)) +
         embedding_parameters() + head_parameters();
}

Transformer Transformer::first_layers(std::int64_t count) const {
  Transformer first = *this;
  first.layers = count;
  for (std::vector<bool>* const by_layer : {&first.windowed, &first.unrotated}) {
    if (!by_layer->empty()) by_layer->resize(static_cast<std::size_t>(count));
  }
  for (const auto& [place, format] : formats.exceptions()) {
    if (place.first >= count)
      first.formats.set(place.second, place.first, formats.of(place.second));
  }
  return first;
}

bool Transformer::has_uniform_layers() const {
  return formats.exceptions().empty() && std::ranges::find(windowed, true) == windowed.end();
}

std::vector<WeightFormat> Transformer::formats_used() const {
  std::vector<WeightFormat> used;
  const auto add = [&](WeightFormat format) {
    if (std::ranges::find(used, format) == used.end()) used.push_back(format);
  };
  for (const WeightMatrix matrix : kWeightMatrices) add(format_of(matrix, -1));
  for (const auto& [place, format] : formats.exceptions()) add(format);
  return used;
}

namespace {

// Returns the longest block of `matrix` in any layer.
std::int64_t longest_block(const WeightFormats& formats, WeightMatrix matrix) {
  std::int64_t longest = block_of(formats.of(matrix)).elements;
  for (const auto& [place, format] : formats.exceptions()) {
    if (place.second == matrix) longest = std::max(longest, block_of(format).elements);
  }
  return longest;
}

}  // namespace

std::int64_t Transformer::column_block() const {
  return longest_block(formats, WeightMatrix::down);
}

Range Transformer::out_columns(std::int32_t layer, Range query_heads) const {
  const std::int64_t block = block_of(format_of(WeightMatrix::out, layer)).elements;
  const std::int64_t begin = query_heads.begin * head_dim;
  const std::int64_t end = query_heads.end * head_dim;
  if (query_heads.empty()) return {0, 0};
  return {static_cast<std::int32_t>(begin / block * block),
          static_cast<std::int32_t>((end + block - 1) / block * block)};
}

std::int64_t Transformer::head_unit() const {
  return std::lcm(head_dim, longest_block(formats, WeightMatrix::out)) / head_dim;
}

// Norms and biases, the remaining parameters, are f32.
std::int64_t Transformer::attention_bytes(std::int32_t layer, Range query_heads) const {
  const std::int64_t all = attention_parameters(query_heads);
  if (query_heads.empty()) return row_bytes(WeightFormat::f32, all);
  const std::int64_t q = query_heads.size() * head_dim;
  const std::int64_t kv = kv_heads_for(query_heads).size() * head_dim;
  const auto row = [&](WeightMatrix matrix) { return row_bytes(format_of(matrix, layer), hidden); };
  return q * row(WeightMatrix::query) + kv * (row(WeightMatrix::key) + row(WeightMatrix::value)) +
         hidden * row_bytes(format_of(WeightMatrix::out, layer),
                            out_columns(layer, query_heads).size()) +
         row_bytes(WeightFormat::f32, all - 2 * hidden * (q + kv));
}

std::int64_t Transformer::ffn_bytes(std::int32_t layer, Range columns) const {
  const std::int64_t all = ffn_parameters(columns);
  if (columns.empty()) return row_bytes(WeightFormat::f32, all);
  const std::int64_t matrices = ffn_matrices();
  const auto row = [&](WeightMatrix matrix) { return row_bytes(format_of(matrix, layer), hidden); };
  const std::int64_t gate = architecture().gated ? row(WeightMatrix::gate) : 0;
  return columns.size() * (gate + row(WeightMatrix::up)) +
         hidden * row_bytes(format_of(WeightMatrix::down, layer), columns.size()) +
         row_bytes(WeightFormat::f32, all - matrices * hidden * columns.size());
}

std::int64_t Transformer::embedding_row_bytes() const {
  return row_bytes(format_of(WeightMatrix::embedding, -1), hidden);
}

std::int64_t Transformer::head_row_bytes() const {
  return row_bytes(format_of(WeightMatrix::head, -1), hidden);
}

std::int64_t Transformer::embedding_bytes() const {
  return vocab * embedding_row_bytes() +
         row_bytes(WeightFormat::f32, embedding_parameters() - vocab * hidden);
}

std::int64_t Transformer::head_bytes() const {
  return (tied_embeddings ? 0 : head_rows()) * head_row_bytes() + final_norm_bytes();
}

std::int64_t Transformer::final_norm_bytes() const {
  const std::int64_t rows = tied_embeddings ? 0 : head_rows();
  return row_bytes(WeightFormat::f32, head_parameters() - rows * hidden);
}

}  // namespace tandem::model
