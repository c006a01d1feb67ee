#pragma once

// Assembles a block from pieces that other blocks of a store contain and from pieces that are sent.

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

// The index of the pieces of all blocks of a store, read from their labels on first use. A match is
// a guess until the bytes are verified against the digest.
class PieceIndex {
 public:
  // `store` outlives it.
  explicit PieceIndex(BlockStore& store) : store_(&store) {}
  struct Place {
    std::string block;
    std::uint32_t piece = 0;
  };
  [[nodiscard]] std::optional<Place> find(const model::Digest& digest);
  // Returns the pieces of `label` that no block contains, in ascending order.
  [[nodiscard]] std::vector<std::uint32_t> lacking(const BlockLabel& label);
  [[nodiscard]] BlockStore& store() { return *store_; }
  // Removes a damaged block from store and index.
  void discard(const std::string& block);

 private:
  // Sixteen bytes a piece, as a store of a 70B model has several hundred thousand.
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

// Reads a file in small portions, mostly forward.
class PortionReader {
 public:
  explicit PortionReader(const std::filesystem::path& path) : file_(path) {}
  // Returns the bytes from `offset` on: at least one, at most `most`. Valid until the next call.
  [[nodiscard]] std::span<const std::byte> read(std::uint64_t offset, std::uint64_t most);

 private:
  ReadFile file_;
  std::vector<std::byte> buffer_;
  std::uint64_t begin_ = 0;
};

// One block during its transfer into a store.
class BlockAssembly {
 public:
  // `index` and `label` outlive it. The pieces `sent`, in ascending order, will be appended; all
  // others are copied from blocks that contain them. `progress`, if any, is called at intervals
  // with the bytes done.
  BlockAssembly(PieceIndex& index, const BlockLabel& label, std::vector<std::uint32_t> sent,
                WeightProgress progress = {});
  ~BlockAssembly();
  BlockAssembly(const BlockAssembly&) = delete;
  BlockAssembly& operator=(const BlockAssembly&) = delete;

  // Appends the next bytes of the sent pieces, in the order of the block; no call before the first.
  // Returns the number of bytes used: all, unless the block is complete. Throws Error if the disk
  // is full.
  std::size_t append(std::span<const std::byte> bytes);
  [[nodiscard]] bool complete() const;
  // Keeps the block. Nothing: a source block was damaged or has vanished, and is no longer indexed;
  // assemble anew. Throws Error if sent pieces have other digests.
  [[nodiscard]] std::optional<BlockFile> finish();

 private:
  struct Donor;
  void copy(Donor* donor, std::uint64_t bytes);
  PieceIndex* index_;
  const BlockLabel* label_;
  WeightProgress progress_;
  std::uint64_t told_ = 0;
  std::map<std::uint32_t, std::unique_ptr<Donor>> donors_;  // by piece that is copied
  std::optional<BlockWriter> writer_;
  PieceWalk walk_;
};

// Calls `sink` with the bytes of the pieces `wanted` of a block, in the form of
// BlockAssembly::append, at most `portion` at a time. Throws Error if the file cannot be read.
void send_pieces(const BlockFile& block, const BlockPieces& pieces,
                 std::span<const std::uint32_t> wanted, std::size_t portion,
                 const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace tandem::exec
