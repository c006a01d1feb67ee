#pragma once

// The contents of a weight block by pieces, and the block's name derived from it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/weights/store/block_pieces.hpp"
#include "model/base/digest.hpp"

namespace tandem::exec {

// A block's division into pieces and the SHA-256 of each. The SHA-256 of the label's bytes is the
// block's name: it fixes every byte of the block, padding included. Value.
class BlockLabel {
 public:
  // Throws logic_error unless there is a digest for each piece.
  BlockLabel(BlockPieces pieces, std::vector<model::Digest> digests);

  // Parses a label. Nothing if it is invalid: another version, truncated, or with runs that overlap
  // or lie outside of the block.
  [[nodiscard]] static std::optional<BlockLabel> parse(std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::byte> serialize() const;

  [[nodiscard]] const BlockPieces& pieces() const { return pieces_; }
  [[nodiscard]] const std::vector<model::Digest>& digests() const { return digests_; }
  [[nodiscard]] const std::string& id() const { return id_; }  // 64 lower-case hexadecimal

 private:
  BlockPieces pieces_;
  std::vector<model::Digest> digests_;
  std::string id_;
};

// Digests of the pieces of a block whose bytes come in order, in any portions. `pieces` outlives
// it.
class PieceDigests {
 public:
  explicit PieceDigests(const BlockPieces& pieces);
  // Throws logic_error for more bytes than the block has.
  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // Returns whether the padding so far was zeros.
  [[nodiscard]] bool padding_is_clear() const { return clear_; }
  [[nodiscard]] std::vector<model::Digest> finish();

 private:
  PieceWalk walk_;
  std::vector<model::DigestStream> streams_;
  std::uint64_t bytes_ = 0;
  bool clear_ = true;
};

}  // namespace tandem::exec
