#pragma once

// Puts a block together from pieces that other blocks of a store have, and from those that are
// sent.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/weights/files/read_file.hpp"
#include "exec/weights/store/block_store.hpp"

namespace tandem::exec {

// What all blocks of a store consist of, read from their labels when first asked. A finding is a
// guess until the bytes are seen to have the digest.
class PieceIndex {
 public:
  // `store` outlives it.
  explicit PieceIndex(BlockStore& store) : store_(&store) {}
  struct Place {
    std::string block;
    std::uint32_t piece = 0;
  };
  [[nodiscard]] std::optional<Place> find(const model::Digest& digest);
  // The pieces of `label` that no block has, in ascending order.
  [[nodiscard]] std::vector<std::uint32_t> lacking(const BlockLabel& label);
  [[nodiscard]] BlockStore& store() { return *store_; }
  // The block is damaged: it is removed, and found no more.
  void discard(const std::string& block);

 private:
  // Sixteen bytes a piece, as a store of 70B has some hundred thousand.
  struct Entry {
    std::uint64_t digest = 0;  // its first bytes
    std::uint32_t block = 0;
    std::uint32_t piece = 0;
  };
  void read();
  BlockStore* store_;
  bool is_read_ = false;
  std::vector<std::string> blocks_;  // an empty name: discarded
  std::vector<Entry> entries_;       // by digest
};

// Bytes of a file in small portions that mostly move forward.
class PortionReader {
 public:
  explicit PortionReader(const std::filesystem::path& path) : file_(path) {}
  // The bytes from `offset` on: at least one, at most `most`. Valid until the next call.
  [[nodiscard]] std::span<const std::byte> read(std::uint64_t offset, std::uint64_t most);

 private:
  ReadFile file_;
  std::vector<std::byte> buffer_;
  std::uint64_t begin_ = 0;
};

// One block on its way into a store.
class BlockAssembly {
 public:
  // `index` and `label` outlive it. The pieces `sent`, in ascending order, will be appended; all
  // others are copied from blocks that have them. `progress`, if any, is told now and then how much
  // of the block is there.
  BlockAssembly(PieceIndex& index, const BlockLabel& label, std::vector<std::uint32_t> sent,
                WeightProgress progress = {});
  ~BlockAssembly();
  BlockAssembly(const BlockAssembly&) = delete;
  BlockAssembly& operator=(const BlockAssembly&) = delete;

  // The next bytes of the pieces that are sent, as they follow each other in the block; none before
  // the first. Returns how many it took: all, unless the block is complete. Throws Error if the
  // disk is full.
  std::size_t append(std::span<const std::byte> bytes);
  [[nodiscard]] bool complete() const;
  // Keeps the block. Nothing: a donor was damaged or has gone, and is found no more; assemble anew.
  // Throws Error if what was sent has another digest.
  [[nodiscard]] std::optional<BlockFile> finish();

 private:
  struct Donor;
  void copy(Donor* donor, std::uint64_t bytes);
  PieceIndex* index_;
  const BlockLabel* label_;
  WeightProgress progress_;
  std::uint64_t told_ = 0;
  std::map<std::uint32_t, std::unique_ptr<Donor>> donors_;  // by piece that is not sent
  std::optional<BlockWriter> writer_;
  PieceWalk walk_;
};

// Calls `sink` with the bytes of the pieces `wanted` of a block, as BlockAssembly::append takes
// them, at most `portion` at a time. Throws Error if the file cannot be read.
void send_pieces(const BlockFile& block, const BlockPieces& pieces,
                 std::span<const std::uint32_t> wanted, std::size_t portion,
                 const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace tandem::exec
