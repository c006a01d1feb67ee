#include "exec/weights/source/layout.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using model::Range;
using model::WeightBlock;

constexpr std::uint64_t kMatrixAlignment = 64;
// Far beyond any model; keeps a hostile plan from filling memory with block tables.
constexpr std::int32_t kMostLayers = 65536;

std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::string to_text(Range range) {
  return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
}

void check_range(std::string_view what, Range range, std::int64_t limit) {
  if (0 <= range.begin && range.begin <= range.end && range.end <= limit) return;
  throw Error("share: " + std::string(what) + " " + to_text(range) + ", expected within [0, " +
              std::to_string(limit) + "); make the plan again for this model");
}

// Parts of a row of `out` are widened to blocks.
void check_blocks(const model::Transformer& transformer, Range columns) {
  const std::int64_t block = transformer.column_block();
  if (columns.begin % block == 0 && columns.end % block == 0) return;
  throw Error("share: FFN columns " + to_text(columns) + ", expected multiples of " +
              std::to_string(block) + " with weights in " + transformer.formats.text() +
              "; make the plan again");
}

model::WeightFormat format_of(const model::Transformer& transformer, WeightName weight,
                              std::int32_t layer) {
  const auto matrix = weight_matrix(weight);
  return matrix ? transformer.format_of(*matrix, layer) : model::WeightFormat::f32;
}

Range times(Range range, std::int64_t factor) {
  return {static_cast<std::int32_t>(range.begin * factor),
          static_cast<std::int32_t>(range.end * factor)};
}

class LayoutBuilder {
 public:
  explicit LayoutBuilder(const model::Transformer& transformer) : transformer_(&transformer) {}

  void begin(WeightBlock kind, std::int32_t layer) {
    layout_.blocks.push_back({kind, layer, layout_.bytes, 0, {}});
  }
  // Adds a vector, or a slice of its `of` elements. Consecutive calls without align() form one
  // vector.
  void vector(WeightName weight, std::int64_t of, Range elements) {
    const TensorPlace place = place_of(*transformer_, weight, layer(), of);
    const auto first = static_cast<std::int32_t>(place.first);
    slice({.weight = weight,
           .tensor = place.tensor,
           .shape = {place.outputs},
           .less_one = place.less_one,
           .rows = {0, 1},
           .columns = {first + elements.begin, first + elements.end},
           .first = first});
  }
  void whole_vector(WeightName weight, std::int64_t size) {
    align();
    vector(weight, size, {0, static_cast<std::int32_t>(size)});
    align();
  }
  void norm(WeightName weight, WeightName bias) {
    const std::int64_t size = transformer_->hidden;
    vector(weight, size, {0, static_cast<std::int32_t>(size)});
    align();
    if (transformer_->architecture().norm != model::Norm::layer) return;
    vector(bias, size, {0, static_cast<std::int32_t>(size)});
    align();
  }
  // Consecutive calls without align() of one format make one matrix.
  void matrix(WeightName weight, std::int64_t of_rows, std::int64_t of_columns, Range rows,
              Range columns) {
    const TensorPlace place = place_of(*transformer_, weight, layer(), of_rows);
    const auto first = static_cast<std::int32_t>(place.first);
    const model::WeightFormat format = format_of(*transformer_, weight, layer());
    const std::vector<TensorSlice>& before = layout_.blocks.back().slices;
    if (!before.empty() && before.back().format != format) align();
    std::vector<std::int64_t> shape{place.outputs, of_columns};
    if (place.transposed) std::swap(shape[0], shape[1]);
    slice({.weight = weight,
           .tensor = place.tensor,
           .shape = std::move(shape),
           .transposed = place.transposed,
           .rows = {first + rows.begin, first + rows.end},
           .columns = columns,
           .format = format,
           .first = first});
  }
  void whole(WeightName weight, std::int64_t rows, std::int64_t columns) {
    matrix(weight, rows, columns, {0, static_cast<std::int32_t>(rows)},
           {0, static_cast<std::int32_t>(columns)});
  }
  // Whole rows of a matrix as wide as the residual stream.
  void rows_of(WeightName weight, std::int64_t of_rows, Range rows) {
    matrix(weight, of_rows, transformer_->hidden, rows,
           {0, static_cast<std::int32_t>(transformer_->hidden)});
  }
  void align() {
    std::uint64_t& bytes = layout_.blocks.back().bytes;
    bytes = round_up(bytes, kMatrixAlignment);
  }
  void end() { layout_.bytes += round_up(layout_.blocks.back().bytes, kBlockAlignment); }
  ShardLayout take() { return std::move(layout_); }

 private:
  [[nodiscard]] std::int32_t layer() const { return layout_.blocks.back().layer; }
  void slice(TensorSlice p) {
    LayoutBlock& block = layout_.blocks.back();
    p.offset = block.bytes;
    block.bytes += p.bytes();  // validate() bounds all parameters by 2^50
    block.slices.push_back(std::move(p));
  }

  const model::Transformer* transformer_;
  ShardLayout layout_;
};

void add_attention(LayoutBuilder& builder, const model::Transformer& m, const model::Share& share,
                   std::int32_t layer) {
  const model::Architecture& a = m.architecture();
  const Range q = times(share.heads, m.head_dim);
  const Range kv = times(m.kv_heads_for(share.heads), m.head_dim);
  const std::int64_t q_rows = m.heads * m.head_dim;
  const std::int64_t kv_rows = m.kv_heads * m.head_dim;
  const Range hidden{0, static_cast<std::int32_t>(m.hidden)};
  builder.begin(WeightBlock::attention, layer);
  if (!share.heads.empty() || a.post_norm())
    builder.norm(WeightName::attention_norm, WeightName::attention_norm_bias);
  if (!share.heads.empty()) {
    builder.matrix(WeightName::query, q_rows, m.hidden, q, hidden);
    builder.matrix(WeightName::key, kv_rows, m.hidden, kv, hidden);
    builder.matrix(WeightName::value, kv_rows, m.hidden, kv, hidden);
    builder.align();
    builder.matrix(WeightName::out, m.hidden, q_rows, hidden, m.out_columns(layer, share.heads));
    if (a.qkv_bias) {
      builder.align();
      builder.vector(WeightName::query_bias, q_rows, q);
      builder.vector(WeightName::key_bias, kv_rows, kv);
      builder.vector(WeightName::value_bias, kv_rows, kv);
    }
    if (a.out_bias && share.heads.begin == 0) {
      builder.align();
      builder.vector(WeightName::out_bias, m.hidden, hidden);
    }
    if (a.head_norms) {
      builder.whole_vector(WeightName::query_norm, m.head_dim);
      builder.whole_vector(WeightName::key_norm, m.head_dim);
    }
  }
  if (a.sum_norms) builder.whole_vector(WeightName::attention_sum_norm, m.hidden);
  builder.end();
}

void add_ffn(LayoutBuilder& builder, const model::Transformer& m, const model::Share& share,
             std::int32_t layer) {
  const model::Architecture& a = m.architecture();
  const Range hidden{0, static_cast<std::int32_t>(m.hidden)};
  builder.begin(WeightBlock::ffn, layer);
  if (!share.columns.empty() || a.post_norm())
    builder.norm(WeightName::ffn_norm, WeightName::ffn_norm_bias);
  if (!share.columns.empty()) {
    if (a.gated) builder.matrix(WeightName::gate, m.intermediate, m.hidden, share.columns, hidden);
    builder.matrix(WeightName::up, m.intermediate, m.hidden, share.columns, hidden);
    builder.align();
    builder.matrix(WeightName::down, m.hidden, m.intermediate, hidden, share.columns);
    if (a.ffn_bias) {
      builder.align();
      if (a.gated) builder.vector(WeightName::gate_bias, m.intermediate, share.columns);
      builder.vector(WeightName::up_bias, m.intermediate, share.columns);
    }
    if (a.ffn_bias && share.columns.begin == 0) {
      builder.align();
      builder.vector(WeightName::down_bias, m.hidden, hidden);
    }
  }
  if (a.sum_norms) builder.whole_vector(WeightName::ffn_sum_norm, m.hidden);
  builder.end();
}

// With all rows of the vocabulary where tokens are embedded, else those of a tied head.
void add_embedding(LayoutBuilder& builder, const model::Transformer& m, const model::Share& share) {
  builder.begin(WeightBlock::embedding, -1);
  if (share.embedding && m.position_rows() > 0) {
    builder.whole(WeightName::positions, m.position_rows(), m.hidden);
    builder.align();
  }
  if (share.embedding && m.token_types > 0) {
    builder.whole(WeightName::token_types, m.token_types, m.hidden);
    builder.align();
  }
  const Range rows =
      share.embedding ? Range{0, static_cast<std::int32_t>(m.vocab)} : model::head_rows(m, share);
  builder.rows_of(WeightName::embedding, m.vocab, rows);
  builder.end();
}

}  // namespace

std::optional<model::WeightMatrix> weight_matrix(WeightName weight) {
  using model::WeightMatrix;
  switch (weight) {
    case WeightName::query:
      return WeightMatrix::query;
    case WeightName::key:
      return WeightMatrix::key;
    case WeightName::value:
      return WeightMatrix::value;
    case WeightName::out:
      return WeightMatrix::out;
    case WeightName::gate:
      return WeightMatrix::gate;
    case WeightName::up:
      return WeightMatrix::up;
    case WeightName::down:
      return WeightMatrix::down;
    case WeightName::embedding:
      return WeightMatrix::embedding;
    case WeightName::head:
      return WeightMatrix::head;
    default:
      return std::nullopt;
  }
}

const TensorSlice* LayoutBlock::find(WeightName weight) const {
  const auto found = std::ranges::find(slices, weight, &TensorSlice::weight);
  return found == slices.end() ? nullptr : &*found;
}

std::uint64_t LayoutBlock::bytes_before_rows() const {
  for (const WeightName rows : {WeightName::embedding, WeightName::head}) {
    if (const TensorSlice* slice = find(rows)) return slice->offset;
  }
  return bytes;
}

ShardLayout layout_of(const model::Transformer& transformer, const model::Share& share) {
  const model::Transformer& m = transformer;
  m.validate();
  for (std::size_t i = 0; i < share.layers.run_count(); ++i)
    check_range("layers", share.layers.run(i), m.layers);
  check_range("heads", share.heads, m.heads);
  check_range("FFN columns", share.columns, m.intermediate);
  check_range("rows of the LM head", share.vocabulary, share.head ? m.head_rows() : 0);
  check_blocks(m, share.columns);
  if (share.layers.size() > kMostLayers) {
    throw Error("share: " + std::to_string(share.layers.size()) + " layers, expected at most " +
                std::to_string(kMostLayers) + " of them; check config.json");
  }

  const bool head_matrix = share.head && m.head_rows() > 0;
  // A residual stream that continues from the norms needs all of them, whatever else is held.
  const bool all_norms = m.architecture().norms_everywhere();
  LayoutBuilder builder(m);
  if (share.embedding || (head_matrix && m.tied_embeddings)) add_embedding(builder, m, share);
  for (const std::int32_t layer : share.layers) {
    if (!share.heads.empty() || all_norms) add_attention(builder, m, share, layer);
    if (!share.columns.empty() || all_norms) add_ffn(builder, m, share, layer);
  }
  if (share.head) {
    builder.begin(WeightBlock::head, -1);
    builder.norm(WeightName::final_norm, WeightName::final_norm_bias);
    if (head_matrix && !m.tied_embeddings)
      builder.rows_of(WeightName::head, m.vocab, model::head_rows(m, share));
    builder.end();
  }
  return builder.take();
}

}  // namespace tandem::exec
