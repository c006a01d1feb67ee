#include "exec/weights/shard.hpp"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "exec/streaming/block_loader.hpp"
#include "exec/weights/digest_stream.hpp"
#include "exec/weights/layout.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/read_file.hpp"
#include "exec/weights/shard_format.hpp"
#include "exec/weights/tensors.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

std::span<float> floats_of(AlignedBuffer& storage, const LayoutBlock& block) {
  return storage.floats().subspan(block.offset / sizeof(float), block.bytes / sizeof(float));
}

// Empty if the block has no such part.
std::span<const float> vector_of(std::span<const float> block, const LayoutBlock& layout,
                                 WeightName weight) {
  const TensorPart* part = layout.find(weight);
  if (part == nullptr) return {};
  return block.subspan(part->offset / sizeof(float), part->elements());
}

// The matrix that `weights`, which follow each other, make up, rows under rows; empty if there are
// none. A weight that the architecture lacks is skipped.
MatrixView matrix_of(std::span<const float> block, const LayoutBlock& layout,
                     std::initializer_list<WeightName> weights) {
  MatrixView view;
  for (const WeightName weight : weights) {
    const TensorPart* part = layout.find(weight);
    if (part == nullptr) continue;
    if (view.data == nullptr) view.data = block.data() + part->offset / sizeof(float);
    view.rows += part->rows.size();
    view.columns = part->columns.size();
  }
  return view;
}

// The vector that `weights` make up in the same way.
std::span<const float> joined(std::span<const float> block, const LayoutBlock& layout,
                              std::initializer_list<WeightName> weights) {
  std::span<const float> all;
  for (const WeightName weight : weights) {
    const std::span<const float> next = vector_of(block, layout, weight);
    if (next.empty()) continue;
    all = {all.empty() ? next.data() : all.data(), all.size() + next.size()};
  }
  return all;
}

void check_file_size(std::uint64_t actual, std::uint64_t expected, const std::string& source) {
  if (actual == expected) return;
  throw Error(source + ": " + std::to_string(actual) + " bytes, expected " +
              std::to_string(expected) + " for this model and share; remove it and make it again");
}

// What a layer's blocks are for the kernels, at `floats`.
void bind_layer(LayerTensors& layer, const LayoutBlock& block, std::span<const float> floats) {
  using enum WeightName;
  if (block.kind == model::WeightBlock::attention) {
    layer.attention_norm = {vector_of(floats, block, attention_norm),
                            vector_of(floats, block, attention_norm_bias)};
    layer.qkv = matrix_of(floats, block, {query, key, value});
    layer.out = matrix_of(floats, block, {out});
    layer.qkv_bias = joined(floats, block, {query_bias, key_bias, value_bias});
    layer.out_bias = vector_of(floats, block, out_bias);
  } else {
    layer.ffn_norm = {vector_of(floats, block, ffn_norm), vector_of(floats, block, ffn_norm_bias)};
    layer.gate_up = matrix_of(floats, block, {gate, up});
    layer.down = matrix_of(floats, block, {down});
    layer.up_bias = joined(floats, block, {gate_bias, up_bias});
    layer.down_bias = vector_of(floats, block, down_bias);
  }
}

std::vector<std::uint64_t> all_of(const ShardLayout& layout) {
  std::vector<std::uint64_t> bytes;
  for (const LayoutBlock& block : layout.blocks) bytes.push_back(block.bytes);
  return bytes;
}

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

}  // namespace

Shard::Shard(const model::Transformer& transformer, const model::Share& share)
    : Shard(transformer, share, layout_of(transformer, share),
            all_of(layout_of(transformer, share))) {
  has_file_layout_ = true;
}

Shard::Shard(const model::Transformer& transformer, const model::Share& share,
             const ShardLayout& layout, std::span<const std::uint64_t> resident)
    : tensors_(std::make_unique<Tensors>()) {
  require(resident.size() == layout.blocks.size(), "shard: says of each block what is resident");
  Tensors& t = *tensors_;
  t.transformer = transformer;
  t.share = share;
  std::uint64_t bytes = 0;
  for (const std::uint64_t of_block : resident) bytes += whole_pages(of_block);
  t.storage = AlignedBuffer(bytes);
  t.layers.resize(static_cast<std::size_t>(share.layers.size()));
  MatrixView embedding;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < resident.size(); ++i) {
    const LayoutBlock& block = layout.blocks[i];
    const std::span<const float> floats =
        t.storage.floats().subspan(at / sizeof(float), resident[i] / sizeof(float));
    at += whole_pages(resident[i]);
    const bool whole = resident[i] == block.bytes;
    switch (block.kind) {
      case model::WeightBlock::none:
        break;
      case model::WeightBlock::embedding:
        if (resident[i] >= block.bytes_before_rows()) {
          t.positions = matrix_of(floats, block, {WeightName::positions});
          t.token_types = matrix_of(floats, block, {WeightName::token_types});
        }
        if (whole) embedding = matrix_of(floats, block, {WeightName::embedding});
        break;
      case model::WeightBlock::attention:
      case model::WeightBlock::ffn:
        if (whole) {
          bind_layer(t.layers[static_cast<std::size_t>(block.layer - share.layers.begin)], block,
                     floats);
        }
        break;
      case model::WeightBlock::head:
        require(resident[i] >= block.bytes_before_rows(), "shard: the final norm is resident");
        t.final_norm = {vector_of(floats, block, WeightName::final_norm),
                        vector_of(floats, block, WeightName::final_norm_bias)};
        if (transformer.tied_embeddings) {
          if (transformer.head_rows() > 0) t.head = embedding;
        } else if (whole) {
          t.head = matrix_of(floats, block, {WeightName::head});
        }
        break;
    }
  }
  if (share.embedding) t.embedding = embedding;
}

Shard Shard::resident(const model::Transformer& transformer, const model::Share& share,
                      const Part& part) {
  Shard shard(transformer, share, part.layout, part.resident);
  std::span<std::byte> storage(shard.tensors_->storage.data(), shard.tensors_->storage.size());
  for (std::size_t i = 0; i < part.resident.size(); ++i) {
    const std::uint64_t pages = whole_pages(part.resident[i]);
    if (pages == 0) continue;
    part.read(part.layout.blocks[i].offset, storage.first(pages));
    storage = storage.subspan(pages);
  }
  return shard;
}

void Shard::bind(const LoadedBlock& block) {
  Tensors& t = *tensors_;
  if (block.layout->kind == model::WeightBlock::attention ||
      block.layout->kind == model::WeightBlock::ffn) {
    bind_layer(t.layers[static_cast<std::size_t>(block.layout->layer - t.share.layers.begin)],
               *block.layout, {block.weights, block.layout->bytes / sizeof(float)});
  } else {
    t.head = {block.weights, block.rows.size(), t.transformer.hidden};
    t.head_begin = block.rows.begin;
  }
}

void Shard::unbind(model::WeightBlock block, std::int32_t layer) {
  Tensors& t = *tensors_;
  switch (block) {
    case model::WeightBlock::attention: {
      LayerTensors& l = t.layers.at(static_cast<std::size_t>(layer - t.share.layers.begin));
      l.attention_norm = {};
      l.qkv = l.out = {};
      l.qkv_bias = l.out_bias = {};
      return;
    }
    case model::WeightBlock::ffn: {
      LayerTensors& l = t.layers.at(static_cast<std::size_t>(layer - t.share.layers.begin));
      l.ffn_norm = {};
      l.gate_up = l.down = {};
      l.up_bias = l.down_bias = {};
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

Shard::Shard(Shard&&) noexcept = default;
Shard& Shard::operator=(Shard&&) noexcept = default;
Shard::~Shard() = default;

Shard Shard::slice(const std::filesystem::path& weights, const model::Transformer& transformer,
                   const model::Share& share) {
  const SafetensorsFolder folder = open_weights(weights, transformer);
  return filled(transformer, share, [&](const LayoutBlock& block, std::span<float> out) {
    slice_block(folder, block, out);
  });
}

Shard Shard::filled(const model::Transformer& transformer, const model::Share& share,
                    const std::function<void(const LayoutBlock&, std::span<float>)>& fill) {
  Shard shard(transformer, share);
  for (const LayoutBlock& block : layout_of(transformer, share).blocks)
    fill(block, floats_of(shard.tensors_->storage, block));
  return shard;
}

Shard Shard::parse(std::span<const std::byte> bytes, const model::Transformer& transformer,
                   const model::Share& share, const std::string& source) {
  const ShardLayout layout = layout_of(transformer, share);
  const auto header = shard_header(transformer, share, layout);
  check_shard_header(bytes.first(std::min(bytes.size(), header.size())), header, source);
  check_file_size(bytes.size(), header.size() + layout.bytes, source);
  Shard shard(transformer, share);
  if (layout.bytes > 0) {
    std::memcpy(shard.tensors_->storage.data(), bytes.data() + header.size(), layout.bytes);
  }
  return shard;
}

Shard Shard::read(const std::filesystem::path& file, const model::Transformer& transformer,
                  const model::Share& share,
                  const std::function<void(std::uint64_t done, std::uint64_t total)>& progress) {
  const ReadFile in(file);
  const ShardLayout layout = layout_of(transformer, share);
  const auto expected = shard_header(transformer, share, layout);
  std::vector<std::byte> header(std::min<std::uint64_t>(in.size(), expected.size()));
  in.read_at(0, header);
  check_shard_header(header, expected, file.string());
  check_file_size(in.size(), expected.size() + layout.bytes, file.string());
  Shard shard(transformer, share);
  constexpr std::uint64_t kPiece = std::uint64_t{16} << 20U;
  for (std::uint64_t at = 0; at < layout.bytes; at += kPiece) {
    const std::uint64_t bytes = std::min(kPiece, layout.bytes - at);
    in.read_at(expected.size() + at, {shard.tensors_->storage.data() + at, bytes});
    if (progress) progress(at + bytes, layout.bytes);
  }
  return shard;
}

void Shard::write(const std::function<void(std::span<const std::byte>)>& sink) const {
  require(has_file_layout_, "shard: only a part of it is resident, so it has no file form");
  const Tensors& t = *tensors_;
  sink(shard_header(t.transformer, t.share, layout_of(t.transformer, t.share)));
  if (t.storage.size() > 0) sink({t.storage.data(), t.storage.size()});
}

std::vector<std::byte> Shard::serialize() const {
  std::vector<std::byte> bytes;
  bytes.reserve(file_bytes(transformer(), share()));
  write([&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

std::string Shard::content_id() const {
  DigestStream digest;
  write([&](std::span<const std::byte> piece) { digest.update(piece); });
  return digest.hex();
}

std::uint64_t Shard::file_bytes(const model::Transformer& transformer, const model::Share& share) {
  const ShardLayout layout = layout_of(transformer, share);
  return shard_header(transformer, share, layout).size() + layout.bytes;
}

const model::Transformer& Shard::transformer() const { return tensors_->transformer; }
const model::Share& Shard::share() const { return tensors_->share; }
double Shard::bytes() const { return static_cast<double>(tensors_->storage.size()); }

}  // namespace tandem::exec
