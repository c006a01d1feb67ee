#include "exec/streaming/weight_window.hpp"

#include <algorithm>
#include <utility>

#include "exec/weights/formats/block_codec.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using model::WeightBlock;

std::string block_name_of(WeightBlock block, std::int32_t layer) {
  return std::string(model::to_string(block)) +
         (layer < 0 ? "" : " of layer " + std::to_string(layer));
}

}  // namespace

WeightWindow::WeightWindow(std::span<const BlockFile> weights,
                           const model::Transformer& transformer, const model::Share& share,
                           std::span<const WindowBlock> blocks, const SlotCounts& slots,
                           const WindowFileOptions& options)
    : transformer_(transformer),
      share_(share),
      layout_(layout_of(transformer, share)),
      weights_(weights.begin(), weights.end()),
      reader_(options.reader) {
  require(weights_.size() == layout_.blocks.size(), "WeightWindow: a file for each block");
  files_.reserve(weights_.size());
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const DirectFile& file = files_.emplace_back(weights_[i].path, options.file);
    const std::uint64_t expected = direct_ceiling(layout_.blocks[i].bytes);
    if (file.size() == expected) continue;
    throw Error(file.path().string() + ": " + std::to_string(file.size()) + " bytes, expected " +
                std::to_string(expected) + " for the " +
                block_name_of(layout_.blocks[i].kind, layout_.blocks[i].layer) +
                "; remove it and start again");
  }
  extents_.reserve(blocks.size());
  for (const WindowBlock& block : blocks) {
    extents_.push_back(extent_of(block));
    extents_.back().of_class = block.block == WeightBlock::attention && slots.attention > 0 ? 0 : 1;
  }
  if (options.before_slots) {
    std::vector<bool> whole;
    for (std::size_t i = 0; i < layout_.blocks.size(); ++i) whole.push_back(stays_whole(i));
    options.before_slots(whole);
  }
  allocate(slots);
}

std::string WeightWindow::method() const {
  return files_.empty() ? "" : reader_.method(files_.front());
}

const DirectFile& WeightWindow::file_of(const LayoutBlock& block) const {
  return files_[static_cast<std::size_t>(&block - layout_.blocks.data())];
}

// The block whose matrix holds the rows of the embedding or of the head, and where it begins there.
const LayoutBlock* WeightWindow::matrix_rows(WeightBlock block, std::uint64_t& offset) const {
  if (block == WeightBlock::head && transformer_.tied_embeddings) block = WeightBlock::embedding;
  const auto found = std::ranges::find(layout_.blocks, block, &LayoutBlock::kind);
  if (found == layout_.blocks.end()) return nullptr;
  offset = found->slices.back().offset;
  return &*found;
}

WeightWindow::Extent WeightWindow::extent_of(const WindowBlock& wanted) const {
  Extent extent;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  if (wanted.block == WeightBlock::head) {
    extent.layout = matrix_rows(WeightBlock::head, begin);
    require(extent.layout != nullptr && 0 <= wanted.rows.begin && !wanted.rows.empty() &&
                wanted.rows.end <= head_rows(transformer_, share_).end,
            "WeightWindow: a tile of a head that the share has");
    extent.rows = wanted.rows;
    const auto row_bytes = static_cast<std::uint64_t>(transformer_.head_row_bytes());
    const TensorSlice& matrix = extent.layout->slices.back();
    const std::int32_t first = matrix.rows.begin - matrix.first;
    require(wanted.rows.begin >= first, "WeightWindow: a tile of the share's rows");
    begin += static_cast<std::uint64_t>(wanted.rows.begin - first) * row_bytes;
    bytes = static_cast<std::uint64_t>(wanted.rows.size()) * row_bytes;
  } else {
    const auto found = std::ranges::find_if(layout_.blocks, [&](const LayoutBlock& block) {
      return block.kind == wanted.block && block.layer == wanted.layer;
    });
    require(found != layout_.blocks.end() && wanted.block != WeightBlock::embedding,
            "WeightWindow: a block of a layer that the share has");
    extent.layout = &*found;
    bytes = found->bytes;
  }
  extent.file = &file_of(*extent.layout);
  extent.offset = direct_floor(begin);
  extent.skip = begin - extent.offset;
  extent.bytes = direct_ceiling(extent.skip + bytes);
  return extent;
}

void WeightWindow::allocate(const SlotCounts& slots) {
  classes_[0].slots = slots.attention;
  classes_[0].bytes = slots.attention_bytes;
  classes_[1].slots = slots.ffn;
  classes_[1].bytes = slots.ffn_bytes;
  for (const Extent& extent : extents_) {
    SlotClass& of = classes_.at(extent.of_class);
    of.bytes = std::max(of.bytes, extent.bytes);
  }
  std::uint64_t bytes = 0;
  for (SlotClass& of : classes_) {
    require(of.slots >= 0 && (of.bytes == 0 || of.slots > 0),
            "WeightWindow: a slot for each class");
    bytes += of.bytes * static_cast<std::uint64_t>(of.slots);
  }
  memory_ = AlignedBuffer(bytes);
  memory_.populate();
  classes_[0].memory = memory_.data();
  classes_[1].memory =
      memory_.data() + classes_[0].bytes * static_cast<std::uint64_t>(classes_[0].slots);
  if (share_.embedding) {
    const auto row = static_cast<std::uint64_t>(transformer_.embedding_row_bytes());
    row_memory_ = AlignedBuffer(direct_ceiling(row) + kDirectAlignment);
  }
}

std::uint64_t WeightWindow::resident_bytes(std::size_t i) const {
  const LayoutBlock& block = layout_.blocks[i];
  const bool streamed =
      std::ranges::any_of(extents_, [&](const Extent& extent) { return extent.layout == &block; });
  switch (block.kind) {
    case WeightBlock::none:
      return 0;
    case WeightBlock::embedding:
      return share_.embedding ? block.bytes_before_rows() : 0;
    case WeightBlock::attention:
    case WeightBlock::ffn:
      return streamed ? 0 : block.bytes;
    case WeightBlock::head:
      return block.bytes_before_rows();
  }
  throw std::logic_error("WeightWindow: a block of no kind");
}

bool WeightWindow::stays_whole(std::size_t i) const {
  return resident_bytes(i) == layout_.blocks[i].bytes;
}

Shard WeightWindow::read_resident(const LoadBlock& load) const {
  std::vector<Shard::Block> blocks;
  for (std::size_t i = 0; i < layout_.blocks.size(); ++i) {
    const std::uint64_t bytes = resident_bytes(i);
    if (bytes == 0) {
      blocks.emplace_back();
    } else if (stays_whole(i)) {
      blocks.push_back({load(weights_[i]), bytes});
    } else {
      AlignedBuffer memory(direct_ceiling(bytes));
      files_[i].read_at(0, {memory.data(), memory.size()});
      blocks.push_back({std::make_shared<const AlignedBuffer>(std::move(memory)), bytes});
    }
  }
  return Shard::of_blocks(transformer_, share_, std::move(blocks));
}

std::size_t WeightWindow::find(const model::Task& task) const {
  const auto found = std::ranges::find_if(extents_, [&](const Extent& extent) {
    const bool tile = task.block == WeightBlock::head;
    return tile ? extent.rows == task.columns && !extent.rows.empty()
                : extent.rows.empty() && extent.layout->kind == task.block &&
                      extent.layout->layer == task.layer;
  });
  if (found == extents_.end()) {
    throw Error("shard: does not stream the " + block_name_of(task.block, task.layer) +
                " that a task loads; plan and shard are of different runs, make both again");
  }
  return static_cast<std::size_t>(found - extents_.begin());
}

LoadedBlock WeightWindow::load(std::size_t block, const std::atomic<bool>& stop) {
  const Extent& extent = extents_.at(block);
  SlotClass& of = classes_.at(extent.of_class);
  std::byte* slot = of.memory + of.bytes * static_cast<std::uint64_t>(of.loads++ % of.slots);
  reader_.read(*extent.file, extent.offset, {slot, extent.bytes}, stop);
  extent.file->check_unchanged();
  return {.layout = extent.layout, .rows = extent.rows, .weights = slot + extent.skip};
}

void WeightWindow::read_row(std::int32_t token, std::span<float> row) {
  std::uint64_t begin = 0;
  const LayoutBlock* block = matrix_rows(WeightBlock::embedding, begin);
  require(block != nullptr && row_memory_.size() > 0, "WeightWindow: the share has the embedding");
  const auto row_bytes = static_cast<std::uint64_t>(transformer_.embedding_row_bytes());
  begin += static_cast<std::uint64_t>(token) * row_bytes;
  const std::uint64_t first = direct_floor(begin);
  const std::uint64_t bytes = direct_ceiling(begin + row_bytes) - first;
  file_of(*block).read_at(first, {row_memory_.data(), bytes});
  decode(transformer_.format_of(model::WeightMatrix::embedding, -1),
         {row_memory_.data() + (begin - first), row_bytes}, row);
}

}  // namespace tandem::exec
