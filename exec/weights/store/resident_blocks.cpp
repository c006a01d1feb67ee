#include "exec/weights/store/resident_blocks.hpp"

#include <algorithm>
#include <utility>

#include "exec/weights/files/read_file.hpp"

namespace tandem::exec {

void ResidentBlocks::keep_only(const std::set<std::string>& ids) {
  std::erase_if(blocks_, [&](const auto& block) { return !ids.contains(block.first); });
}

std::shared_ptr<const AlignedBuffer> ResidentBlocks::load(const BlockFile& file,
                                                          const WeightProgress& progress) {
  if (const auto found = blocks_.find(file.id); found != blocks_.end()) return found->second;
  const ReadFile in(file.path);
  AlignedBuffer memory(file.bytes);
  constexpr std::uint64_t kPortion = std::uint64_t{16} << 20U;
  for (std::uint64_t at = 0; at < file.bytes; at += kPortion) {
    const std::uint64_t bytes = std::min(kPortion, file.bytes - at);
    in.read_at(at, {memory.data() + at, bytes});
    bytes_read_ += bytes;
    if (progress) progress(at + bytes, file.bytes);
  }
  auto block = std::make_shared<const AlignedBuffer>(std::move(memory));
  blocks_.emplace(file.id, block);
  return block;
}

double ResidentBlocks::bytes() const {
  double bytes = 0.0;
  for (const auto& [id, memory] : blocks_) bytes += static_cast<double>(memory->size());
  return bytes;
}

}  // namespace tandem::exec
