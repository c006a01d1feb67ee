#include "exec/weights/shard.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "exec/weights/digest_stream.hpp"
#include "exec/weights/layout.hpp"
#include "exec/weights/read_file.hpp"
#include "exec/weights/shard_format.hpp"
#include "exec/weights/tensors.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

std::span<float> floats_of(AlignedBuffer& storage, const LayoutBlock& block) {
  return storage.floats().subspan(block.offset / sizeof(float), block.bytes / sizeof(float));
}

std::span<const float> vector_of(std::span<const float> block, const TensorPart& part) {
  return block.subspan(part.offset / sizeof(float), part.elements());
}

// The matrix that consecutive parts make up, rows under rows.
MatrixView matrix_of(std::span<const float> block, std::span<const TensorPart> parts) {
  MatrixView view{block.data() + parts.front().offset / sizeof(float), 0,
                  parts.front().columns.size()};
  for (const TensorPart& part : parts) view.rows += part.rows.size();
  return view;
}

void check_file_size(std::uint64_t actual, std::uint64_t expected, const std::string& source) {
  if (actual == expected) return;
  throw Error(source + ": " + std::to_string(actual) + " bytes, expected " +
              std::to_string(expected) + " for this model and share; remove it and make it again");
}

}  // namespace

Shard::Shard(const model::Transformer& transformer, const model::Share& share)
    : tensors_(std::make_unique<Tensors>()), has_file_layout_(true) {
  const ShardLayout layout = layout_of(transformer, share);
  Tensors& t = *tensors_;
  t.transformer = transformer;
  t.share = share;
  t.storage = AlignedBuffer(layout.bytes);
  t.layers.resize(static_cast<std::size_t>(share.layers.size()));
  MatrixView embedding;
  for (const LayoutBlock& block : layout.blocks) {
    const std::span<const float> floats = floats_of(t.storage, block);
    const std::span<const TensorPart> parts = block.parts;
    const auto layer = static_cast<std::size_t>(std::max(block.layer - share.layers.begin, 0));
    switch (block.kind) {
      case model::WeightBlock::none:
        break;
      case model::WeightBlock::embedding:
        embedding = matrix_of(floats, parts);
        break;
      case model::WeightBlock::attention:
        t.layers[layer].attention_norm = vector_of(floats, parts[0]);
        t.layers[layer].qkv = matrix_of(floats, parts.subspan(1, 3));
        t.layers[layer].out = matrix_of(floats, parts.subspan(4, 1));
        break;
      case model::WeightBlock::ffn:
        t.layers[layer].ffn_norm = vector_of(floats, parts[0]);
        t.layers[layer].gate_up = matrix_of(floats, parts.subspan(1, 2));
        t.layers[layer].down = matrix_of(floats, parts.subspan(3, 1));
        break;
      case model::WeightBlock::head:
        t.final_norm = vector_of(floats, parts[0]);
        t.head = transformer.tied_embeddings ? embedding : matrix_of(floats, parts.subspan(1, 1));
        break;
    }
  }
  if (share.embedding) t.embedding = embedding;
}

Shard::Shard(Shard&&) noexcept = default;
Shard& Shard::operator=(Shard&&) noexcept = default;
Shard::~Shard() = default;

Shard Shard::slice(const std::filesystem::path& weights, const model::Transformer& transformer,
                   const model::Share& share) {
  const SafetensorsFolder folder(weights);
  Shard shard(transformer, share);
  for (const LayoutBlock& block : layout_of(transformer, share).blocks) {
    slice_block(folder, block, floats_of(shard.tensors_->storage, block));
  }
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
                  const model::Share& share) {
  const ReadFile in(file);
  const ShardLayout layout = layout_of(transformer, share);
  const auto expected = shard_header(transformer, share, layout);
  std::vector<std::byte> header(std::min<std::uint64_t>(in.size(), expected.size()));
  in.read_at(0, header);
  check_shard_header(header, expected, file.string());
  check_file_size(in.size(), expected.size() + layout.bytes, file.string());
  Shard shard(transformer, share);
  in.read_at(expected.size(), {shard.tensors_->storage.data(), layout.bytes});
  return shard;
}

void Shard::write(const std::function<void(std::span<const std::byte>)>& sink) const {
  require(has_file_layout_, "shard: made from tensors, so it has no file form");
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
