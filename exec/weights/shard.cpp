#include "exec/weights/shard.hpp"

#include <initializer_list>
#include <utility>

#include "exec/streaming/block_loader.hpp"
#include "exec/weights/layout.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/slicing.hpp"
#include "exec/weights/tensors.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

// Empty if the block has no such slice.
std::span<const float> vector_of(std::span<const std::byte> block, const LayoutBlock& layout,
                                 WeightName weight) {
  const TensorSlice* slice = layout.find(weight);
  if (slice == nullptr) return {};
  return {reinterpret_cast<const float*>(block.subspan(slice->offset, slice->bytes()).data()),
          slice->elements()};
}

// Empty if the block has no such matrix.
MatrixView matrix_of(std::span<const std::byte> block, const LayoutBlock& layout,
                     WeightName weight) {
  const TensorSlice* slice = layout.find(weight);
  if (slice == nullptr) return {};
  return {block.subspan(slice->offset).data(), slice->rows.size(), slice->columns.size(),
          slice->format};
}

// The vector that `weights`, which follow each other, make up. A weight that the architecture lacks
// is skipped.
std::span<const float> joined(std::span<const std::byte> block, const LayoutBlock& layout,
                              std::initializer_list<WeightName> weights) {
  std::span<const float> all;
  for (const WeightName weight : weights) {
    const std::span<const float> next = vector_of(block, layout, weight);
    if (next.empty()) continue;
    all = {all.empty() ? next.data() : all.data(), all.size() + next.size()};
  }
  return all;
}

// What a layer's blocks are for the kernels, at `bytes`.
void bind_layer(LayerTensors& layer, const LayoutBlock& block, std::span<const std::byte> bytes) {
  using enum WeightName;
  if (block.kind == model::WeightBlock::attention) {
    layer.attention_norm = {vector_of(bytes, block, attention_norm),
                            vector_of(bytes, block, attention_norm_bias)};
    layer.query = matrix_of(bytes, block, query);
    layer.key = matrix_of(bytes, block, key);
    layer.value = matrix_of(bytes, block, value);
    layer.out = matrix_of(bytes, block, out);
    layer.qkv_bias = joined(bytes, block, {query_bias, key_bias, value_bias});
    layer.out_bias = vector_of(bytes, block, out_bias);
    layer.query_norm = vector_of(bytes, block, query_norm);
    layer.key_norm = vector_of(bytes, block, key_norm);
    layer.attention_sum_norm = {vector_of(bytes, block, attention_sum_norm), {}};
  } else {
    layer.ffn_norm = {vector_of(bytes, block, ffn_norm), vector_of(bytes, block, ffn_norm_bias)};
    layer.gate = matrix_of(bytes, block, gate);
    layer.up = matrix_of(bytes, block, up);
    layer.down = matrix_of(bytes, block, down);
    layer.up_bias = joined(bytes, block, {gate_bias, up_bias});
    layer.down_bias = vector_of(bytes, block, down_bias);
    layer.ffn_sum_norm = {vector_of(bytes, block, ffn_sum_norm), {}};
  }
}

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

}  // namespace

Shard::Shard(const model::Transformer& transformer, const model::Share& share,
             const ShardLayout& layout, std::vector<Block> blocks)
    : tensors_(std::make_unique<Tensors>()) {
  require(blocks.size() == layout.blocks.size(), "shard: says of each block what is in memory");
  Tensors& t = *tensors_;
  t.transformer = transformer;
  t.share = share;
  t.layers.resize(static_cast<std::size_t>(share.layers.size()));
  MatrixView embedding;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const LayoutBlock& block = layout.blocks[i];
    const std::uint64_t resident = blocks[i].bytes;
    if (resident == 0) continue;
    require(blocks[i].memory != nullptr && blocks[i].memory->size() >= resident,
            "shard: a block has the memory that it says");
    const std::span<const std::byte> bytes(std::as_const(*blocks[i].memory).data(), resident);
    const bool whole = resident == block.bytes;
    switch (block.kind) {
      case model::WeightBlock::none:
        break;
      case model::WeightBlock::embedding:
        if (resident >= block.bytes_before_rows()) {
          t.positions = matrix_of(bytes, block, WeightName::positions);
          t.token_types = matrix_of(bytes, block, WeightName::token_types);
        }
        if (whole) embedding = matrix_of(bytes, block, WeightName::embedding);
        break;
      case model::WeightBlock::attention:
      case model::WeightBlock::ffn:
        if (whole) {
          bind_layer(t.layers[static_cast<std::size_t>(share.layers.place(block.layer))], block,
                     bytes);
        }
        break;
      case model::WeightBlock::head:
        require(resident >= block.bytes_before_rows(), "shard: the final norm is resident");
        t.final_norm = {vector_of(bytes, block, WeightName::final_norm),
                        vector_of(bytes, block, WeightName::final_norm_bias)};
        if (transformer.tied_embeddings) {
          if (transformer.head_rows() > 0) t.head = embedding;
        } else if (whole) {
          t.head = matrix_of(bytes, block, WeightName::head);
        }
        break;
    }
  }
  if (share.embedding) t.embedding = embedding;
  for (Block& block : blocks) {
    if (block.memory) t.storage.push_back(std::move(block.memory));
  }
}

Shard Shard::of_blocks(const model::Transformer& transformer, const model::Share& share,
                       std::vector<Block> blocks) {
  return {transformer, share, layout_of(transformer, share), std::move(blocks)};
}

void Shard::bind(const LoadedBlock& block) {
  Tensors& t = *tensors_;
  if (block.layout->kind == model::WeightBlock::attention ||
      block.layout->kind == model::WeightBlock::ffn) {
    bind_layer(t.layers[static_cast<std::size_t>(t.share.layers.place(block.layout->layer))],
               *block.layout, {block.weights, block.layout->bytes});
  } else {
    t.head = {block.weights, block.rows.size(), t.transformer.hidden,
              t.transformer.format_of(model::WeightMatrix::head, -1)};
    t.head_begin = block.rows.begin;
  }
}

void Shard::unbind(model::WeightBlock block, std::int32_t layer) {
  Tensors& t = *tensors_;
  switch (block) {
    case model::WeightBlock::attention: {
      LayerTensors& l = t.layers.at(static_cast<std::size_t>(t.share.layers.place(layer)));
      l.attention_norm = {};
      l.query = l.key = l.value = l.out = {};
      l.qkv_bias = l.out_bias = {};
      l.query_norm = l.key_norm = {};
      l.attention_sum_norm = {};
      return;
    }
    case model::WeightBlock::ffn: {
      LayerTensors& l = t.layers.at(static_cast<std::size_t>(t.share.layers.place(layer)));
      l.ffn_norm = {};
      l.gate = l.up = l.down = {};
      l.up_bias = l.down_bias = {};
      l.ffn_sum_norm = {};
      return;
    }
    case model::WeightBlock::head:
      t.head = {};
      return;
    case model::WeightBlock::none:
    case model::WeightBlock::embedding:
      break;
  }
  throw std::logic_error("shard: a block that is never streamed");
}

Shard::Shard(std::unique_ptr<Tensors> tensors) : tensors_(std::move(tensors)) {}
Shard Shard::alias() const { return Shard(std::make_unique<Tensors>(*tensors_)); }
Shard::Shard(Shard&&) noexcept = default;
Shard& Shard::operator=(Shard&&) noexcept = default;
Shard::~Shard() = default;

Shard Shard::slice(const std::filesystem::path& weights, const model::Transformer& transformer,
                   const model::Share& share) {
  return slice(*open_weights(weights, transformer), transformer, share);
}

Shard Shard::slice(const WeightSource& weights, const model::Transformer& transformer,
                   const model::Share& share) {
  Shard shard = filled(transformer, share, [&](const LayoutBlock& block, std::span<std::byte> out) {
    slice_block(weights, block, out);
  });
  weights.check_unchanged();
  return shard;
}

Shard Shard::filled(const model::Transformer& transformer, const model::Share& share,
                    const std::function<void(const LayoutBlock&, std::span<std::byte>)>& fill) {
  const ShardLayout layout = layout_of(transformer, share);
  std::vector<Block> blocks;
  for (const LayoutBlock& block : layout.blocks) {
    AlignedBuffer memory(whole_pages(block.bytes));
    fill(block, {memory.data(), block.bytes});
    blocks.push_back({std::make_shared<const AlignedBuffer>(std::move(memory)), block.bytes});
  }
  return {transformer, share, layout, std::move(blocks)};
}

const model::Transformer& Shard::transformer() const { return tensors_->transformer; }
const model::Share& Shard::share() const { return tensors_->share; }
double Shard::bytes() const {
  double bytes = 0.0;
  for (const auto& memory : tensors_->storage) bytes += static_cast<double>(memory->size());
  return bytes;
}

}  // namespace tandem::exec
