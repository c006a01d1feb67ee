#include "model/transformer/transformer.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>

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

std::int64_t norm_parameters(const Transformer& t) {
  return t.architecture().norm_vectors() * t.hidden;
}

}  // namespace

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

std::int64_t Transformer::cached_numbers(Range query_heads) const {
  if (latent) return query_heads.empty() ? 0 : latent->cached();
  return std::int64_t{2} * kv_heads_for(query_heads).size() * head_dim;
}

Transformer::FfnColumns Transformer::ffn_columns(std::int32_t layer, Range columns) const {
  if (!experts) return {.routed = 0, .common = columns.size()};
  const auto of_width = [&](std::int64_t width) {
    return columns.end * width / intermediate - columns.begin * width / intermediate;
  };
  if (!experts->in(layer)) return {.routed = 0, .common = of_width(experts->dense)};
  return {.routed = columns.size(), .common = of_width(experts->shared)};
}

std::int64_t Transformer::active_columns(std::int32_t layer, Range columns) const {
  const FfnColumns own = ffn_columns(layer, columns);
  return own.common + (experts ? experts->chosen * own.routed : 0);
}

std::int64_t Transformer::row_unit(WeightMatrix matrix) const {
  switch (matrix) {
    case WeightMatrix::query:
      return latent && latent->query_rank > 0 ? std::gcd(hidden, latent->query_rank) : hidden;
    case WeightMatrix::value:
      return latent ? latent->rank : hidden;
    case WeightMatrix::out:
      return heads * out_dims();
    case WeightMatrix::down:
      if (!experts) return intermediate;
      return std::gcd(std::gcd(intermediate, experts->shared), experts->dense);
    case WeightMatrix::key:
    case WeightMatrix::gate:
    case WeightMatrix::up:
    case WeightMatrix::embedding:
    case WeightMatrix::head:
      return hidden;
  }
  throw std::logic_error("weight matrix out of range");
}

namespace {

// The weights of one layer's latent attention, by the matrix whose format they have.
struct LatentWeights {
  std::int64_t hidden_queries = 0;  // rows of `hidden` numbers
  std::int64_t ranked_queries = 0;  // rows of query_rank numbers
  std::int64_t keys = 0;            // rows of `hidden` numbers
  std::int64_t values = 0;          // rows of `rank` numbers
  std::int64_t others = 0;          // norms
};

LatentWeights latent_weights(const Transformer& t, std::int32_t layer, std::int64_t heads) {
  const LatentAttention& l = *t.latent;
  LatentWeights w;
  const std::int64_t queries = heads * (l.plain + l.rotated);
  const bool ranked = l.query_rank > 0;
  (ranked ? w.ranked_queries : w.hidden_queries) += queries;
  if (ranked) w.hidden_queries += l.query_rank;
  w.keys = l.rank + l.rotated;
  w.values = heads * (l.plain + l.value);
  w.others = l.rank + l.query_rank;
  if (!l.indexes(layer)) return w;
  (ranked ? w.ranked_queries : w.hidden_queries) += l.index_heads * l.index_dims;
  w.keys += l.index_dims + l.index_heads;  // keys, and the heads' weights
  w.others += 2 * l.index_dims;
  return w;
}

}  // namespace

std::int64_t Transformer::attention_parameters(Range query_heads, std::int32_t layer) const {
  const Architecture& a = architecture();
  const std::int64_t sum_norm = a.sum_norms ? norm_parameters(*this) : 0;
  if (query_heads.empty()) return sum_norm + (a.post_norm() ? norm_parameters(*this) : 0);
  if (latent) {
    const LatentWeights w = latent_weights(*this, layer, query_heads.size());
    return (w.hidden_queries + w.keys + query_heads.size() * latent->value) * hidden +
           w.ranked_queries * latent->query_rank + w.values * latent->rank + w.others + sum_norm +
           norm_parameters(*this);
  }
  const std::int64_t q = query_heads.size() * head_dim;
  const std::int64_t kv = kv_heads_for(query_heads).size() * head_dim;
  std::int64_t biases = 0;
  if (a.qkv_bias) biases += q + 2 * kv;
  if (a.out_bias && query_heads.begin == 0) biases += hidden;
  if (a.sinks) biases += query_heads.size();
  const std::int64_t head_norms = a.head_norms ? 2 * head_dim : 0;
  return 2 * hidden * (q + kv) + biases + head_norms + sum_norm + norm_parameters(*this);
}

std::int64_t Transformer::ffn_parameters(Range columns, std::int32_t layer) const {
  const Architecture& a = architecture();
  const std::int64_t sum_norm = a.sum_norms ? norm_parameters(*this) : 0;
  if (columns.empty()) return sum_norm + (a.post_norm() ? norm_parameters(*this) : 0);
  const bool routes = experts && experts->in(layer);
  const FfnColumns own = ffn_columns(layer, columns);
  const std::int64_t width = own.common + (routes ? experts->count * own.routed : 0);
  std::int64_t biases = routes ? experts->router_parameters(hidden) : 0;
  if (a.ffn_bias) biases += (ffn_matrices() - 1) * width;
  if (a.ffn_bias && columns.begin == 0) biases += hidden * (routes ? experts->count : 1);
  return ffn_matrices() * hidden * width + biases + sum_norm + norm_parameters(*this);
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
  std::int64_t count = embedding_parameters() + head_parameters();
  if (!experts && !latent)
    return count + layers * (attention_parameters(all_heads) + ffn_parameters(all_columns));
  for (std::int32_t layer = 0; layer < layers; ++layer)
    count += attention_parameters(all_heads, layer) + ffn_parameters(all_columns, layer);
  return count;
}

std::int64_t Transformer::active_parameters() const {
  if (!experts) return parameters();
  Transformer used = *this;
  used.experts->count = used.experts->chosen;
  std::int64_t routers = 0;  // are used whole
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    if (experts->in(layer))
      routers += experts->router_parameters(hidden) - used.experts->router_parameters(hidden);
  }
  return used.parameters() + routers;
}

std::int32_t Transformer::usual_layer() const {
  for (std::int32_t layer = 0; experts && layer < layers; ++layer) {
    if (experts->in(layer)) return layer;
  }
  return 0;
}

Transformer Transformer::first_layers(std::int64_t count) const {
  Transformer first = *this;
  first.layers = count;
  for (std::vector<bool>* const by_layer : {&first.windowed, &first.unrotated}) {
    if (!by_layer->empty()) by_layer->resize(static_cast<std::size_t>(count));
  }
  if (first.experts && !first.experts->dense_layers.empty())
    first.experts->dense_layers.resize(static_cast<std::size_t>(count));
  if (first.latent && !first.latent->borrowed_index.empty())
    first.latent->borrowed_index.resize(static_cast<std::size_t>(count));
  for (const auto& [place, format] : formats.exceptions()) {
    if (place.first >= count)
      first.formats.set(place.second, place.first, formats.of(place.second));
  }
  return first;
}

bool Transformer::has_uniform_layers() const {
  const auto any = [](const std::vector<bool>& by_layer) {
    return std::ranges::find(by_layer, true) != by_layer.end();
  };
  if (experts && any(experts->dense_layers)) return false;
  if (latent && any(latent->borrowed_index)) return false;
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
  const std::int64_t begin = query_heads.begin * out_dims();
  const std::int64_t end = query_heads.end * out_dims();
  if (query_heads.empty()) return {0, 0};
  return {static_cast<std::int32_t>(begin / block * block),
          static_cast<std::int32_t>((end + block - 1) / block * block)};
}

std::int64_t Transformer::head_unit() const {
  return std::lcm(out_dims(), longest_block(formats, WeightMatrix::out)) / out_dims();
}

// Norms, biases and routers, the remaining parameters, are f32.
std::int64_t Transformer::attention_bytes(std::int32_t layer, Range query_heads) const {
  const std::int64_t all = attention_parameters(query_heads, layer);
  if (query_heads.empty()) return row_bytes(WeightFormat::f32, all);
  const auto bytes = [&](std::int64_t rows, WeightMatrix matrix, std::int64_t length) {
    return rows * row_bytes(format_of(matrix, layer), length);
  };
  const std::int64_t out = bytes(hidden, WeightMatrix::out, out_columns(layer, query_heads).size());
  if (latent) {
    const LatentWeights w = latent_weights(*this, layer, query_heads.size());
    return bytes(w.hidden_queries, WeightMatrix::query, hidden) +
           bytes(w.ranked_queries, WeightMatrix::query, latent->query_rank) +
           bytes(w.keys, WeightMatrix::key, hidden) +
           bytes(w.values, WeightMatrix::value, latent->rank) + out +
           row_bytes(WeightFormat::f32,
                     w.others + (architecture().sum_norms ? 2 : 1) * norm_parameters(*this));
  }
  const std::int64_t q = query_heads.size() * head_dim;
  const std::int64_t kv = kv_heads_for(query_heads).size() * head_dim;
  return bytes(q, WeightMatrix::query, hidden) + bytes(kv, WeightMatrix::key, hidden) +
         bytes(kv, WeightMatrix::value, hidden) + out +
         row_bytes(WeightFormat::f32, all - 2 * hidden * (q + kv));
}

std::int64_t Transformer::ffn_bytes(std::int32_t layer, Range columns) const {
  const std::int64_t all = ffn_parameters(columns, layer);
  if (columns.empty()) return row_bytes(WeightFormat::f32, all);
  const FfnColumns own = ffn_columns(layer, columns);
  const std::int64_t count = experts && experts->in(layer) ? experts->count : 0;
  const std::int64_t width = own.common + count * own.routed;
  const auto row = [&](WeightMatrix matrix, std::int64_t length) {
    return row_bytes(format_of(matrix, layer), length);
  };
  const std::int64_t gate = architecture().gated ? row(WeightMatrix::gate, hidden) : 0;
  return width * (gate + row(WeightMatrix::up, hidden)) +
         hidden *
             (row(WeightMatrix::down, own.common) + count * row(WeightMatrix::down, own.routed)) +
         row_bytes(WeightFormat::f32, all - ffn_matrices() * hidden * width);
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
