#include "planner/plan/window.hpp"

#include <algorithm>
#include <cmath>

#include "model/graph/block_bytes.hpp"

namespace tandem::planner {
namespace {

using model::Range;
using model::Share;
using model::Transformer;
using model::WeightBlock;

// By layer.
class Blocks {
 public:
  Blocks(const Transformer& t, const Share& share)
      : bytes_(t, share.layers, share.heads, share.columns) {}
  [[nodiscard]] double attention(std::int32_t layer) const {
    return static_cast<double>(bytes_.attention(layer));
  }
  [[nodiscard]] double ffn(std::int32_t layer) const {
    return static_cast<double>(bytes_.ffn(layer));
  }

 private:
  model::BlockBytes bytes_;
};

double head_row_bytes(const Transformer& t) { return static_cast<double>(t.head_row_bytes()); }

std::int32_t tile_rows(const Transformer& t, const Share& share, const Blocks& bytes) {
  double largest = 0.0;
  for (const std::int32_t layer : share.layers)
    largest = std::max({largest, bytes.attention(layer), bytes.ffn(layer)});
  if (largest == 0.0) {
    const Range all{0, static_cast<std::int32_t>(t.intermediate)};
    largest = static_cast<double>(t.ffn_bytes(0, all));
  }
  const double rows = std::floor(largest / head_row_bytes(t));
  return static_cast<std::int32_t>(std::clamp(rows, 1.0, static_cast<double>(t.vocab)));
}

double whole_pages(double bytes) { return std::ceil(bytes / kWindowPage) * kWindowPage; }

bool is_ffn_class(const StreamedBlock& block) { return block.block != WeightBlock::attention; }

// The most blocks of a class among any `window` in a row.
std::int64_t most_in_a_row(const std::vector<StreamedBlock>& blocks, std::size_t window, bool ffn) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < window; ++i) count += is_ffn_class(blocks[i]) == ffn ? 1 : 0;
  std::int64_t most = count;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    count -= is_ffn_class(blocks[i]) == ffn ? 1 : 0;
    count += is_ffn_class(blocks[(i + window) % blocks.size()]) == ffn ? 1 : 0;
    most = std::max(most, count);
  }
  return most;
}

std::vector<StreamedBlock> blocks_of(const Transformer& t, const Share& share, Window window,
                                     const Blocks& bytes) {
  std::vector<StreamedBlock> blocks;
  if (!window.streams()) return blocks;
  for (const std::int32_t layer : share.layers) {
    if (!share.heads.empty()) {
      blocks.push_back({WeightBlock::attention, layer, share.heads, bytes.attention(layer)});
    }
    if (!share.columns.empty() && !window.retains(layer)) {
      blocks.push_back({WeightBlock::ffn, layer, share.columns, bytes.ffn(layer)});
    }
  }
  const Range head = model::head_rows(t, share);
  const std::int32_t rows = head.empty() ? 0 : tile_rows(t, share, bytes);
  for (std::int32_t row = head.begin; row < head.end;) {
    const Range tile{row, row + std::min(rows, head.end - row)};
    blocks.push_back({WeightBlock::head, -1, tile, tile.size() * head_row_bytes(t)});
    row = tile.end;
  }
  return blocks;
}

}  // namespace

std::vector<StreamedBlock> streamed_blocks(const Transformer& t, const Share& share,
                                           Window window) {
  if (!window.streams()) return {};
  return blocks_of(t, share, window, Blocks(t, share));
}

Window normalized(const Transformer& t, const Share& share, Window window) {
  const std::size_t streamed = streamed_blocks(t, share, window).size();
  return static_cast<std::size_t>(window.blocks) >= streamed ? Window{} : window;
}

//   resident = retained FFN blocks + final norm + what the embedding has beside its matrix
//              + norms of blocks that the device has no share in, in bytes
WindowMemory window_memory(const Transformer& t, const Share& share, Window window) {
  WindowMemory memory;
  const auto whole = [&] {
    memory.resident = model::weight_bytes(t, share);
    return memory;
  };
  if (!window.streams()) return whole();
  const Blocks bytes(t, share);
  const std::vector<StreamedBlock> blocks = blocks_of(t, share, window, bytes);
  if (static_cast<std::size_t>(window.blocks) >= blocks.size()) return whole();
  for (const std::int32_t layer : share.layers) {
    if (share.heads.empty()) memory.resident += bytes.attention(layer);
    if (share.columns.empty() || window.retains(layer)) memory.resident += bytes.ffn(layer);
  }
  std::int64_t ends = 0;
  if (share.embedding) ends += t.embedding_bytes() - t.vocab * t.embedding_row_bytes();
  if (share.head) ends += t.final_norm_bytes();
  memory.resident += static_cast<double>(ends);

  const auto width = static_cast<std::size_t>(window.blocks);
  memory.attention.count = most_in_a_row(blocks, width, false);
  memory.ffn.count = most_in_a_row(blocks, width, true);
  for (const StreamedBlock& block : blocks) {
    ClassSlots& slots = is_ffn_class(block) ? memory.ffn : memory.attention;
    const double slack = block.block == WeightBlock::head ? kWindowPage : 0.0;
    slots.bytes = std::max(slots.bytes, whole_pages(block.bytes) + slack);
  }
  const ClassSlots one_class{.count = window.blocks,
                             .bytes = std::max(memory.attention.bytes, memory.ffn.bytes)};
  if (one_class.total() < memory.attention.total() + memory.ffn.total()) {
    memory.attention = {};
    memory.ffn = one_class;
  }
  return memory;
}

double weight_bytes(const Transformer& t, const Share& share, Window window) {
  return window_memory(t, share, window).total();
}

double page_padding(const Transformer& t, const Share& share, Window window) {
  const Window own = normalized(t, share, window);
  const bool norms_everywhere = t.architecture().norms_everywhere();
  double padding = 0.0;
  const auto add = [&](std::int64_t of_block) {
    const auto bytes = static_cast<double>(of_block);
    padding += whole_pages(bytes) - bytes;
  };
  const auto add_layer = [&](std::int64_t bytes, bool has, bool streams) {
    if ((has || norms_everywhere) && !streams) add(bytes);
  };
  for (const std::int32_t layer : share.layers) {
    const bool heads = !share.heads.empty();
    const bool columns = !share.columns.empty();
    add_layer(t.attention_bytes(layer, share.heads), heads, own.streams() && heads);
    add_layer(t.ffn_bytes(layer, share.columns), columns,
              own.streams() && columns && !own.retains(layer));
  }
  // The matrices of embedding and head stay in memory unless the device streams.
  const std::int64_t matrix = model::head_rows(t, share).size() * t.head_row_bytes();
  const bool tied_head = share.head && t.tied_embeddings && !share.embedding;
  if (share.embedding) {
    add(t.embedding_bytes() - (own.streams() ? t.vocab * t.embedding_row_bytes() : 0));
  } else if (tied_head && !own.streams()) {
    add(matrix);
  }
  if (share.head) {
    const bool beside = !own.streams() && !t.tied_embeddings;
    add(t.final_norm_bytes() + (beside ? matrix : 0));
  }
  return padding;
}

}  // namespace tandem::planner
