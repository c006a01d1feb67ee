#include "exec/weights/shard.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "exec/kernels/thread_pool.hpp"
#include "exec/weights/block_loader.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/source/layout.hpp"
#include "exec/weights/source/slicing.hpp"
#include "exec/weights/tensors.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::uint64_t kCopyAlignment = 64;
// Bytes that one thread copies at a time; all threads together copy a huge page between two time
// checks.
constexpr std::int64_t kCopyGranule = std::int64_t{256} << 10U;
constexpr std::size_t kCopyBytes = std::size_t{2} << 20U;

// The memory of a slice.
struct SlicePlace {
  const std::byte* data = nullptr;
  bool in_pairs = false;
};

// A block in memory: contiguous, or each slice separately.
struct BlockPlace {
  const LayoutBlock* layout = nullptr;
  const std::byte* bytes = nullptr;
  std::span<const SlicePlace> places{};

  [[nodiscard]] SlicePlace of(const TensorSlice& slice) const {
    if (places.empty()) return {bytes + slice.offset};
    return places[static_cast<std::size_t>(&slice - layout->slices.data())];
  }
};

// Empty if the block has no such slice.
std::span<const float> vector_of(const BlockPlace& block, WeightName weight) {
  const TensorSlice* slice = block.layout->find(weight);
  if (slice == nullptr) return {};
  return {reinterpret_cast<const float*>(block.of(*slice).data), slice->elements()};
}

// Empty if the block has no such matrix.
MatrixView matrix_of(const BlockPlace& block, WeightName weight) {
  const TensorSlice* slice = block.layout->find(weight);
  if (slice == nullptr) return {};
  const SlicePlace place = block.of(*slice);
  return {place.data, slice->rows.size(), slice->columns.size(), slice->format, place.in_pairs};
}

// The vector that `weights`, which follow each other, make up. A weight that the architecture lacks
// is skipped.
std::span<const float> joined(const BlockPlace& block, std::initializer_list<WeightName> weights) {
  std::span<const float> all;
  for (const WeightName weight : weights) {
    const std::span<const float> next = vector_of(block, weight);
    if (next.empty()) continue;
    all = {all.empty() ? next.data() : all.data(), all.size() + next.size()};
  }
  return all;
}

// Sets the kernels' view of a layer's blocks.
void bind_layer(LayerTensors& layer, const BlockPlace& block) {
  using enum WeightName;
  const std::span<const std::byte> whole{
      block.bytes, block.bytes == nullptr ? 0 : static_cast<std::size_t>(block.layout->bytes)};
  if (block.layout->kind == model::WeightBlock::attention) {
    layer.attention_norm = {vector_of(block, attention_norm),
                            vector_of(block, attention_norm_bias)};
    layer.query = matrix_of(block, query);
    layer.key = matrix_of(block, key);
    layer.value = matrix_of(block, value);
    layer.out = matrix_of(block, out);
    layer.qkv_bias = joined(block, {query_bias, key_bias, value_bias});
    layer.out_bias = vector_of(block, out_bias);
    layer.query_norm = vector_of(block, query_norm);
    layer.key_norm = vector_of(block, key_norm);
    layer.attention_sum_norm = {vector_of(block, attention_sum_norm), {}};
    layer.attention_block = whole;
  } else {
    layer.ffn_norm = {vector_of(block, ffn_norm), vector_of(block, ffn_norm_bias)};
    layer.gate = matrix_of(block, gate);
    layer.up = matrix_of(block, up);
    layer.down = matrix_of(block, down);
    layer.up_bias = joined(block, {gate_bias, up_bias});
    layer.down_bias = vector_of(block, down_bias);
    layer.ffn_sum_norm = {vector_of(block, ffn_sum_norm), {}};
    layer.ffn_block = whole;
  }
}

// Sets the kernels' view of a block of which the first `resident` bytes are in memory. `embedding`:
// of blocks before it.
void bind_block(Shard::Tensors& t, const BlockPlace& place, std::uint64_t resident,
                MatrixView& embedding) {
  const LayoutBlock& block = *place.layout;
  const bool whole = resident == block.bytes;
  switch (block.kind) {
    case model::WeightBlock::none:
      break;
    case model::WeightBlock::embedding:
      if (resident >= block.bytes_before_rows()) {
        t.positions = matrix_of(place, WeightName::positions);
        t.token_types = matrix_of(place, WeightName::token_types);
      }
      if (whole) embedding = matrix_of(place, WeightName::embedding);
      break;
    case model::WeightBlock::attention:
    case model::WeightBlock::ffn:
      if (whole)
        bind_layer(t.layers[static_cast<std::size_t>(t.share.layers.place(block.layer))], place);
      break;
    case model::WeightBlock::head:
      require(resident >= block.bytes_before_rows(), "shard: the final norm is resident");
      t.final_norm = {vector_of(place, WeightName::final_norm),
                      vector_of(place, WeightName::final_norm_bias)};
      if (t.transformer.tied_embeddings) {
        if (t.transformer.head_rows() > 0) t.head = embedding;
      } else if (whole) {
        t.head = matrix_of(place, WeightName::head);
      }
      // A device that embeds has all rows of a tied matrix.
      if (!head_is_embedding(t.transformer, t.share))
        t.head_begin = head_rows(t.transformer, t.share).begin;
      break;
  }
}

std::uint64_t whole_alignments(std::uint64_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

}  // namespace

void bind_layer(LayerTensors& layer, const LayoutBlock& block, const std::byte* bytes) {
  bind_layer(layer, BlockPlace{&block, bytes});
}

Shard::Shard(const model::Transformer& transformer, const model::Share& share)
    : tensors_(std::make_unique<Tensors>()) {
  tensors_->transformer = transformer;
  tensors_->share = share;
  tensors_->layers.resize(static_cast<std::size_t>(share.layers.size()));
}

Shard::Shard(const model::Transformer& transformer, const model::Share& share,
             const ShardLayout& layout, std::vector<Block> blocks)
    : Shard(transformer, share) {
  require(blocks.size() == layout.blocks.size(), "shard: says of each block what is in memory");
  Tensors& t = *tensors_;
  MatrixView embedding;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::uint64_t resident = blocks[i].bytes;
    if (resident == 0) continue;
    require(blocks[i].memory != nullptr && blocks[i].memory->size() >= resident,
            "shard: a block has the memory that it says");
    bind_block(t, {&layout.blocks[i], std::as_const(*blocks[i].memory).data()}, resident,
               embedding);
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
               {block.layout, block.weights});
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
      l.attention_block = {};
      return;
    }
    case model::WeightBlock::ffn: {
      LayerTensors& l = t.layers.at(static_cast<std::size_t>(t.share.layers.place(layer)));
      l.ffn_norm = {};
      l.gate = l.up = l.down = {};
      l.up_bias = l.down_bias = {};
      l.ffn_sum_norm = {};
      l.ffn_block = {};
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

// The matrices of one place being copied to memory of their own, in order.
struct Shard::Moving {
  struct Copy {
    MatrixView* matrix;
    const MappedFile* file;
    const std::byte* from;
    std::size_t offset;  // in `memory`
    [[nodiscard]] std::span<const std::byte> bytes() const {
      return {from, static_cast<std::size_t>(matrix->rows * matrix->row_bytes())};
    }
  };
  std::size_t place = 0;
  std::vector<Copy> copies;
  AlignedBuffer memory;
  std::size_t total = 0;    // bytes of all copies
  std::size_t done = 0;     // of these
  std::size_t current = 0;  // copy
  std::size_t at = 0;       // bytes of it that are done
};

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
    AlignedBuffer memory(whole_alignments(block.bytes));
    fill(block, {memory.data(), block.bytes});
    blocks.push_back({std::make_shared<const AlignedBuffer>(std::move(memory)), block.bytes});
  }
  return {transformer, share, layout, std::move(blocks)};
}

Shard Shard::mapped(const WeightSource& weights, const model::Transformer& transformer,
                    const model::Share& share, const PartsToRead& how) {
  const auto files = std::make_shared<const MappedWeights>(weights);
  const ShardLayout layout = layout_of(transformer, share);
  std::vector<std::vector<SlicePlace>> places;
  std::vector<MappedPart> parts;
  // A copy and its destination, consecutive as in the layout.
  struct Copy {
    const TensorSlice* slice = nullptr;
    std::int32_t layer = -1;
    std::uint64_t offset = 0;
    SlicePlace* place = nullptr;
  };
  std::vector<Copy> copies;
  std::uint64_t copied = 0;
  double mapped_bytes = 0.0;
  for (const LayoutBlock& block : layout.blocks) {
    std::vector<SlicePlace>& of_block = places.emplace_back(block.slices.size());
    const TensorSlice* before = nullptr;  // that was copied
    for (std::size_t i = 0; i < block.slices.size(); ++i) {
      const TensorSlice& slice = block.slices[i];
      if (auto part = files->find(weights, slice, block.layer)) {
        of_block[i] = {part->bytes.data(), part->in_pairs};
        mapped_bytes += static_cast<double>(part->bytes.size());
        parts.push_back(std::move(*part));
        before = nullptr;
        continue;
      }
      if (before == nullptr || slice.offset != before->offset + before->bytes())
        copied = (copied + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
      copies.push_back({&slice, block.layer, copied, &of_block[i]});
      copied += slice.bytes();
      before = &slice;
    }
  }
  if (parts.empty()) return slice(weights, transformer, share);
  files->read(parts, how);
  AlignedBuffer memory(whole_alignments(copied));
  for (const Copy& copy : copies) {
    slice_tensor(weights, *copy.slice, copy.layer,
                 {memory.data() + copy.offset, copy.slice->bytes()});
    copy.place->data = memory.data() + copy.offset;
  }
  weights.check_unchanged();
  Shard shard(transformer, share);
  Tensors& t = *shard.tensors_;
  MatrixView embedding;
  for (std::size_t i = 0; i < layout.blocks.size(); ++i)
    bind_block(t, {&layout.blocks[i], nullptr, places[i]}, layout.blocks[i].bytes, embedding);
  if (share.embedding) t.embedding = embedding;
  t.storage.push_back(std::make_shared<const AlignedBuffer>(std::move(memory)));
  t.mapped = files;
  t.mapped_bytes = mapped_bytes;
  t.may_copy = how.may_copy;
  return shard;
}

bool Shard::may_copy() const { return tensors_->may_copy; }

std::optional<double> Shard::copy_mapped(std::size_t place, ThreadPool& pool,
                                         std::chrono::nanoseconds at_most) {
  Tensors& t = *tensors_;
  if (!t.mapped) return 1.0;
  const auto begin = std::chrono::steady_clock::now();
  require(!moving_ || moving_->place == place, "one place is copied after another");
  if (!moving_) {
    auto fresh = std::make_unique<Moving>();
    fresh->place = place;
    std::size_t size = 0;
    const auto add = [&](MatrixView& matrix) {
      const MappedFile* const file =
          matrix.data == nullptr ? nullptr : t.mapped->file_of(matrix.data);
      if (file == nullptr) return;
      const auto& copy = fresh->copies.emplace_back(
          Moving::Copy{.matrix = &matrix, .file = file, .from = matrix.data, .offset = size});
      fresh->total += copy.bytes().size();
      size += (copy.bytes().size() + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
    };
    if (place == t.layers.size()) {
      add(t.head);
    } else {
      LayerTensors& l = t.layers.at(place);
      for (MatrixView* const one : {&l.query, &l.key, &l.value, &l.out, &l.gate, &l.up, &l.down})
        add(*one);
    }
    if (fresh->copies.empty()) return 1.0;
    try {
      fresh->memory = AlignedBuffer(whole_alignments(size));
    } catch (const Error&) {
      return std::nullopt;
    }
    moving_ = std::move(fresh);
  }
  Moving& m = *moving_;
  do {
    const Moving::Copy& copy = m.copies[m.current];
    const std::span<const std::byte> some =
        copy.bytes().subspan(m.at, std::min(kCopyBytes, copy.bytes().size() - m.at));
    std::byte* const to = m.memory.data() + copy.offset + m.at;
    pool.parallel_for(static_cast<std::int64_t>(some.size()), kCopyGranule,
                      [=](std::int64_t first, std::int64_t end, int) {
                        std::copy(some.data() + first, some.data() + end, to + first);
                      });
    m.at += some.size();
    m.done += some.size();
    if (m.at == copy.bytes().size()) {
      t.mapped->check();  // what a file lost reads as zeros
      copy.matrix->data = m.memory.data() + copy.offset;
      copy.file->forget(copy.bytes());
      ++m.current;
      m.at = 0;
    }
  } while (m.current < m.copies.size() && std::chrono::steady_clock::now() - begin < at_most);
  if (m.current < m.copies.size())
    return static_cast<double>(m.done) / static_cast<double>(m.total);
  t.mapped_bytes -= static_cast<double>(m.total);
  t.storage.push_back(std::make_shared<const AlignedBuffer>(std::move(m.memory)));
  moving_.reset();
  return 1.0;
}

void Shard::leave_mapped() {
  if (!moving_) return;
  const std::span<const Moving::Copy> copied = std::span(moving_->copies).first(moving_->current);
  for (const Moving::Copy& copy : copied) copy.matrix->data = copy.from;
  // Released before their pages come back, so that nothing is in memory twice.
  moving_->memory = AlignedBuffer();
  for (const Moving::Copy& copy : copied) copy.file->populate(copy.bytes());
  moving_.reset();
}

const model::Transformer& Shard::transformer() const { return tensors_->transformer; }
const model::Share& Shard::share() const { return tensors_->share; }
double Shard::bytes() const {
  double bytes = tensors_->mapped_bytes;
  for (const auto& memory : tensors_->storage) bytes += static_cast<double>(memory->size());
  return bytes;
}

double Shard::mapped_bytes() const { return tensors_->mapped_bytes; }

void Shard::check() const {
  if (tensors_->mapped) tensors_->mapped->check();
}

}  // namespace tandem::exec
