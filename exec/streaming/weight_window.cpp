#include "exec/streaming/weight_window.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "exec/weights/digest_stream.hpp"
#include "exec/weights/shard_format.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

using model::WeightBlock;

constexpr std::size_t kVerifyBytes = std::size_t{1} << 20U;

std::string name_of(WeightBlock block, std::int32_t layer) {
  return std::string(model::to_string(block)) +
         (layer < 0 ? "" : " of layer " + std::to_string(layer));
}

}  // namespace

WeightWindow::WeightWindow(const ShardFile& file, const model::Transformer& transformer,
                           const model::Share& share, std::span<const StreamedPart> blocks,
                           const WindowSlots& slots, const WindowFileOptions& options)
    : transformer_(transformer),
      share_(share),
      layout_(layout_of(transformer, share)),
      file_(file.path, options.file),
      reader_(file_, options.reader) {
  const std::vector<std::byte> header = shard_header(transformer, share, layout_);
  header_bytes_ = header.size();
  check_header(header);
  if (options.verify) verify(file);
  extents_.reserve(blocks.size());
  for (const StreamedPart& part : blocks) {
    extents_.push_back(extent_of(part));
    extents_.back().of_class = part.block == WeightBlock::attention && slots.attention > 0 ? 0 : 1;
  }
  allocate(slots);
}

void WeightWindow::check_header(std::span<const std::byte> header) const {
  if (file_.size() != header.size() + layout_.bytes) {
    throw Error(file_.path().string() + ": " + std::to_string(file_.size()) + " bytes, expected " +
                std::to_string(header.size() + layout_.bytes) +
                " for this model and share; remove it and start again");
  }
  AlignedBuffer actual(header.size());
  file_.read_at(0, {actual.data(), actual.size()});
  check_shard_header({actual.data(), actual.size()}, header, file_.path().string());
}

void WeightWindow::verify(const ShardFile& file) const {
  AlignedBuffer piece(kVerifyBytes);
  DigestStream digest;
  for (std::uint64_t at = 0; at < file_.size(); at += kVerifyBytes) {
    const std::span<std::byte> part(piece.data(),
                                    std::min<std::uint64_t>(kVerifyBytes, file_.size() - at));
    file_.read_at(at, part);
    digest.update(part);
  }
  const std::string actual = digest.hex();
  if (actual == file.sha256) return;
  std::error_code ignored;
  std::filesystem::remove(file_.path(), ignored);
  throw Error(file_.path().string() + ": its bytes have SHA-256 " + actual.substr(0, 12) +
              ", expected " + file.sha256.substr(0, 12) +
              "; the file was altered and is removed, start again to make a new one");
}

// The block whose matrix holds the rows of the embedding or of the head, and where it begins there.
const LayoutBlock* WeightWindow::matrix_rows(WeightBlock block, std::uint64_t& offset) const {
  if (block == WeightBlock::head && transformer_.tied_embeddings) block = WeightBlock::embedding;
  const auto found = std::ranges::find(layout_.blocks, block, &LayoutBlock::kind);
  if (found == layout_.blocks.end()) return nullptr;
  offset = header_bytes_ + found->offset + found->parts.back().offset;
  return &*found;
}

WeightWindow::Extent WeightWindow::extent_of(const StreamedPart& part) const {
  Extent extent;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  if (part.block == WeightBlock::head) {
    extent.layout = matrix_rows(WeightBlock::head, begin);
    require(extent.layout != nullptr && 0 <= part.rows.begin && !part.rows.empty() &&
                part.rows.end <= transformer_.vocab,
            "WeightWindow: a tile of a head that the share has");
    extent.rows = part.rows;
    const auto row_bytes = static_cast<std::uint64_t>(transformer_.hidden) * sizeof(float);
    begin += static_cast<std::uint64_t>(part.rows.begin) * row_bytes;
    bytes = static_cast<std::uint64_t>(part.rows.size()) * row_bytes;
  } else {
    const auto found = std::ranges::find_if(layout_.blocks, [&](const LayoutBlock& block) {
      return block.kind == part.block && block.layer == part.layer;
    });
    require(found != layout_.blocks.end() && part.block != WeightBlock::embedding,
            "WeightWindow: a block of a layer that the share has");
    extent.layout = &*found;
    begin = header_bytes_ + found->offset;
    bytes = found->bytes;
  }
  extent.offset = direct_floor(begin);
  extent.skip = begin - extent.offset;
  extent.bytes = direct_ceiling(extent.skip + bytes);
  return extent;
}

void WeightWindow::allocate(const WindowSlots& slots) {
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
    const auto row = static_cast<std::uint64_t>(transformer_.hidden) * sizeof(float);
    row_memory_ = AlignedBuffer(direct_ceiling(row) + kDirectAlignment);
  }
}

Shard WeightWindow::read_resident() const {
  std::vector<std::uint64_t> resident;
  for (const LayoutBlock& block : layout_.blocks) {
    const bool streamed = std::ranges::any_of(
        extents_, [&](const Extent& extent) { return extent.layout == &block; });
    switch (block.kind) {
      case WeightBlock::none:
        resident.push_back(0);
        break;
      case WeightBlock::embedding:
        resident.push_back(share_.embedding ? block.bytes_before_rows() : 0);
        break;
      case WeightBlock::attention:
      case WeightBlock::ffn:
        resident.push_back(streamed ? 0 : block.bytes);
        break;
      case WeightBlock::head:
        resident.push_back(block.bytes_before_rows());
        break;
    }
  }
  return Shard::resident(transformer_, share_,
                         {.layout = layout_,
                          .resident = resident,
                          .read = [&](std::uint64_t offset, std::span<std::byte> pages) {
                            file_.read_at(header_bytes_ + offset, pages);
                          }});
}

std::size_t WeightWindow::find(const model::Task& task) const {
  const auto found = std::ranges::find_if(extents_, [&](const Extent& extent) {
    const bool tile = task.block == WeightBlock::head;
    return tile ? extent.rows == task.columns && !extent.rows.empty()
                : extent.rows.empty() && extent.layout->kind == task.block &&
                      extent.layout->layer == task.layer;
  });
  if (found == extents_.end()) {
    throw Error("shard: does not stream the " + name_of(task.block, task.layer) +
                " that a task loads; plan and shard are of different runs, make both again");
  }
  return static_cast<std::size_t>(found - extents_.begin());
}

LoadedBlock WeightWindow::load(std::size_t block, const std::atomic<bool>& stop) {
  const Extent& extent = extents_.at(block);
  SlotClass& of = classes_.at(extent.of_class);
  std::byte* slot = of.memory + of.bytes * static_cast<std::uint64_t>(of.loads++ % of.slots);
  reader_.read(extent.offset, {slot, extent.bytes}, stop);
  file_.check_unchanged();
  return {.layout = extent.layout,
          .rows = extent.rows,
          .weights = reinterpret_cast<const float*>(slot + extent.skip)};
}

void WeightWindow::read_row(std::int32_t token, std::span<float> row) {
  std::uint64_t begin = 0;
  require(matrix_rows(WeightBlock::embedding, begin) != nullptr && row_memory_.size() > 0,
          "WeightWindow: the share has the embedding");
  begin += static_cast<std::uint64_t>(token) * row.size_bytes();
  const std::uint64_t first = direct_floor(begin);
  const std::uint64_t bytes = direct_ceiling(begin + row.size_bytes()) - first;
  file_.read_at(first, {row_memory_.data(), bytes});
  std::memcpy(row.data(), row_memory_.data() + (begin - first), row.size_bytes());
}

}  // namespace tandem::exec
