#include "exec/weights/layout.hpp"

#include <string_view>
#include <utility>

#include "model/error.hpp"

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

Range times(Range range, std::int64_t factor) {
  return {static_cast<std::int32_t>(range.begin * factor),
          static_cast<std::int32_t>(range.end * factor)};
}

class Builder {
 public:
  void begin(WeightBlock kind, std::int32_t layer) {
    layout_.blocks.push_back({kind, layer, layout_.bytes, 0, {}});
  }
  void vector(std::string name, std::int64_t size) {
    const Range all{0, static_cast<std::int32_t>(size)};
    part({std::move(name), {size}, {0, 1}, all, 0});
    align();
  }
  // Consecutive calls without align() make one matrix.
  void matrix(std::string name, std::int64_t of_rows, std::int64_t of_columns, Range rows,
              Range columns) {
    part({std::move(name), {of_rows, of_columns}, rows, columns, 0});
  }
  void whole(std::string name, std::int64_t rows, std::int64_t columns) {
    matrix(std::move(name), rows, columns, {0, static_cast<std::int32_t>(rows)},
           {0, static_cast<std::int32_t>(columns)});
  }
  void align() {
    std::uint64_t& bytes = layout_.blocks.back().bytes;
    bytes = round_up(bytes, kMatrixAlignment);
  }
  void end() { layout_.bytes += round_up(layout_.blocks.back().bytes, kBlockAlignment); }
  ShardLayout take() { return std::move(layout_); }

 private:
  void part(TensorPart p) {
    LayoutBlock& block = layout_.blocks.back();
    p.offset = block.bytes;
    block.bytes += p.elements() * sizeof(float);  // validate() bounds all parameters by 2^50
    block.parts.push_back(std::move(p));
  }

  ShardLayout layout_;
};

void add_attention(Builder& builder, const model::Transformer& m, const model::Share& share,
                   std::int32_t layer, const std::string& prefix) {
  const Range q = times(share.heads, m.head_dim);
  const Range kv = times(m.kv_heads_for(share.heads), m.head_dim);
  const std::int64_t q_rows = m.heads * m.head_dim;
  const std::int64_t kv_rows = m.kv_heads * m.head_dim;
  const Range hidden{0, static_cast<std::int32_t>(m.hidden)};
  builder.begin(WeightBlock::attention, layer);
  builder.vector(prefix + "input_layernorm.weight", m.hidden);
  builder.matrix(prefix + "self_attn.q_proj.weight", q_rows, m.hidden, q, hidden);
  builder.matrix(prefix + "self_attn.k_proj.weight", kv_rows, m.hidden, kv, hidden);
  builder.matrix(prefix + "self_attn.v_proj.weight", kv_rows, m.hidden, kv, hidden);
  builder.align();
  builder.matrix(prefix + "self_attn.o_proj.weight", m.hidden, q_rows, hidden, q);
  builder.end();
}

void add_ffn(Builder& builder, const model::Transformer& m, const model::Share& share,
             std::int32_t layer, const std::string& prefix) {
  const Range hidden{0, static_cast<std::int32_t>(m.hidden)};
  builder.begin(WeightBlock::ffn, layer);
  builder.vector(prefix + "post_attention_layernorm.weight", m.hidden);
  builder.matrix(prefix + "mlp.gate_proj.weight", m.intermediate, m.hidden, share.columns, hidden);
  builder.matrix(prefix + "mlp.up_proj.weight", m.intermediate, m.hidden, share.columns, hidden);
  builder.align();
  builder.matrix(prefix + "mlp.down_proj.weight", m.hidden, m.intermediate, hidden, share.columns);
  builder.end();
}

}  // namespace

ShardLayout layout_of(const model::Transformer& transformer, const model::Share& share) {
  const model::Transformer& m = transformer;
  m.validate();
  if (m.family != model::Family::llama) {
    throw Error("model " + m.name + ": family " + std::string(model::to_string(m.family)) +
                ", expected llama; models of this family can be planned and simulated only");
  }
  check_range("layers", share.layers, m.layers);
  check_range("heads", share.heads, m.heads);
  check_range("FFN columns", share.columns, m.intermediate);
  if (share.layers.size() > kMostLayers) {
    throw Error("share: layers " + to_text(share.layers) + ", expected at most " +
                std::to_string(kMostLayers) + " of them; check config.json");
  }

  Builder builder;
  if (share.embedding || (share.head && m.tied_embeddings)) {
    builder.begin(WeightBlock::embedding, -1);
    builder.whole("model.embed_tokens.weight", m.vocab, m.hidden);
    builder.end();
  }
  for (std::int32_t layer = share.layers.begin; layer < share.layers.end; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    if (!share.heads.empty()) add_attention(builder, m, share, layer, prefix);
    if (!share.columns.empty()) add_ffn(builder, m, share, layer, prefix);
  }
  if (share.head) {
    builder.begin(WeightBlock::head, -1);
    builder.vector("model.norm.weight", m.hidden);
    if (!m.tied_embeddings) builder.whole("lm_head.weight", m.vocab, m.hidden);
    builder.end();
  }
  return builder.take();
}

}  // namespace tandem::exec
