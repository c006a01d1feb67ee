#include "exec/compute/block_cache.hpp"

#include <algorithm>

#include "model/base/error.hpp"

namespace tandem::exec {

static_assert(kPanel == model::kKeyPanel);

BlockCache::BlockCache(const model::Transformer& transformer, const model::Share& share,
                       std::int64_t positions)
    : layers_(share.layers),
      kv_heads_(transformer.kv_heads_for(share.heads)),
      head_dim_(transformer.head_dim),
      format_(transformer.cache),
      scales_(static_cast<std::size_t>(layers_.size() * kv_heads_.size())),
      table_(model::cache_blocks(positions)),
      memory_(
          static_cast<std::size_t>(table_.size() * model::cache_block_bytes(transformer, share))) {
  require(static_cast<std::int64_t>(memory_.size()) ==
              std::int64_t{layers_.size()} * kv_heads_.size() * table_.size() *
                  block_bytes(format_, model::kCacheBlock, head_dim_),
          "a block of the cache has the size that is predicted");
  memory_.populate();
}

double BlockCache::begin(const model::Batch& batch) { return begin(batch, {0, batch.rows()}); }

double BlockCache::begin(const model::Batch& batch, model::Range rows) {
  double copied = 0.0;
  for (const model::CacheOp& op : batch.cache) table_.apply(op);
  if (table_.free_blocks() == table_.size()) reset_scales();
  std::int32_t row = 0;
  for (const model::Segment& segment : batch.segments) {
    const model::Range all{segment.past, segment.past + segment.rows};
    const model::Range held = rows.intersect({row, row + segment.rows});
    const std::int32_t shift = segment.past - row;
    row += segment.rows;
    if (held.empty()) {
      table_.skip(segment.sequence, all);
      continue;
    }
    const model::Range mine{held.begin + shift, held.end + shift};
    if (all.begin < mine.begin) table_.skip(segment.sequence, {all.begin, mine.begin});
    copied += append(segment.sequence, mine);
    if (mine.end < all.end) table_.skip(segment.sequence, {mine.end, all.end});
  }
  return copied;
}

void BlockCache::pass(const model::Batch& batch) {
  for (const model::CacheOp& op : batch.cache) {
    if (op.kind == model::CacheOpKind::free) table_.apply(op);
  }
}

double BlockCache::append(std::int32_t sequence, model::Range positions) {
  std::int64_t bytes = 0;
  for (const model::BlockTable::Copy& one : table_.append(sequence, positions)) bytes += copy(one);
  return static_cast<double>(bytes);
}

void BlockCache::clear() {
  table_.clear();
  reset_scales();
}

void BlockCache::reset_scales() { std::ranges::fill(scales_, HeadScales{}); }

std::int64_t BlockCache::head_index(std::int32_t layer, std::int32_t kv_head) const {
  return std::int64_t{layers_.place(layer)} * kv_heads_.size() + (kv_head - kv_heads_.begin);
}

std::int64_t BlockCache::offset(std::int32_t layer, std::int32_t kv_head) const {
  return head_index(layer, kv_head) * table_.size() *
         block_bytes(format_, model::kCacheBlock, head_dim_);
}

CachedHead BlockCache::head(std::span<const std::int32_t> blocks, std::int32_t layer,
                            std::int32_t kv_head) const {
  auto* memory = const_cast<std::byte*>(memory_.data());
  return {.memory = memory + offset(layer, kv_head),
          .blocks = blocks.data(),
          .block_positions = model::kCacheBlock,
          .format = format_,
          .scales = &scales_[static_cast<std::size_t>(head_index(layer, kv_head))],
          .head_blocks = table_.size()};
}

std::span<std::byte> BlockCache::layer(std::int32_t layer) {
  const auto begin = static_cast<std::size_t>(offset(layer, kv_heads_.begin));
  const auto end = static_cast<std::size_t>(offset(layer, kv_heads_.end));
  return {memory_.data() + begin, end - begin};
}

std::int64_t BlockCache::copy(const model::BlockTable::Copy& copy) {
  const std::int64_t keys = key_bytes(format_, copy.positions, head_dim_);
  const std::int64_t values = model::cache_bytes(format_, copy.positions * head_dim_);
  const std::int64_t block = block_bytes(format_, model::kCacheBlock, head_dim_);
  const std::int64_t to_values = key_bytes(format_, model::kCacheBlock, head_dim_);
  for (const std::int32_t layer : layers_) {
    for (std::int32_t head = kv_heads_.begin; head < kv_heads_.end; ++head) {
      std::byte* memory = memory_.data() + offset(layer, head);
      const std::byte* from = memory + copy.from * block;
      std::byte* to = memory + copy.to * block;
      std::copy_n(from, keys, to);
      std::copy_n(from + to_values, values, to + to_values);
    }
  }
  return std::int64_t{layers_.size()} * kv_heads_.size() * (keys + values);
}

}  // namespace tandem::exec
