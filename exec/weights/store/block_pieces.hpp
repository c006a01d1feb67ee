#pragma once

// The division of a weight block's bytes into pieces, by which blocks of different shares are
// recognised as partly equal.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/weights/source/layout.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// FFN columns of one piece; more for a model with more than 4096 times as many.
inline constexpr std::int64_t kPieceColumns = 64;  // or one block, if `down` has longer blocks
// Rows of the vocabulary of one piece.
inline constexpr std::int64_t kPieceRows = 1024;

// Consecutive bytes of one piece.
struct PieceRun {
  std::uint32_t piece = 0;
  std::uint64_t offset = 0;  // in the block
  std::uint64_t bytes = 0;
  bool operator==(const PieceRun&) const = default;
};

// Repeated runs: each appears `rows` times, `stride` bytes apart.
struct PieceBand {
  std::uint64_t stride = 0;
  std::uint64_t rows = 1;
  std::vector<PieceRun> runs;  // in the order of their offsets, one a piece
  bool operator==(const PieceBand&) const = default;
};

// Bytes outside all runs are padding of zeros. The bytes of a piece, in the order of bands and of
// rows in a band, do not depend on the block's other contents: equal weights are equal pieces in
// every block.
struct BlockPieces {
  std::uint64_t bytes = 0;  // of the block: whole pages
  std::uint32_t count = 0;  // of pieces
  std::vector<PieceBand> bands;
  [[nodiscard]] std::vector<std::uint64_t> piece_bytes() const;
  bool operator==(const BlockPieces&) const = default;
};

// Returns the pieces of `block`: its norms and the biases that one device adds; each query head
// (its rows of the query matrix, its columns of the output matrix, its biases; or as many heads as
// share whole blocks of the format, Transformer::head_unit); each key/value head; each
// kPieceColumns columns of the FFN (rows of gate and up, columns of down), counted from the model's
// first, not the share's; each kPieceRows rows of the vocabulary.
[[nodiscard]] BlockPieces pieces_of(const model::Transformer& transformer,
                                    const LayoutBlock& block);

// Walks forward through a block's bytes by piece. `pieces` outlives it.
class PieceWalk {
 public:
  explicit PieceWalk(const BlockPieces& pieces);
  struct Stretch {
    std::optional<std::uint32_t> piece;  // nothing: padding
    std::uint64_t offset = 0;            // in the block
    std::uint64_t bytes = 0;             // consecutive ones from here; 0 at the block's end
  };
  [[nodiscard]] Stretch here() const;
  // At most here().bytes.
  void advance(std::uint64_t bytes);

 private:
  [[nodiscard]] const PieceRun* run() const;
  [[nodiscard]] std::uint64_t run_offset() const;
  const BlockPieces* pieces_;
  std::size_t band_ = 0;
  std::uint64_t row_ = 0;
  std::size_t run_ = 0;
  std::uint64_t at_ = 0;
};

// The bytes of one piece of a block, in order. `pieces` outlives it.
class PieceSource {
 public:
  PieceSource(const BlockPieces& pieces, std::uint32_t piece);
  struct Stretch {
    std::uint64_t offset = 0;  // in the block
    std::uint64_t bytes = 0;   // 0: the piece has ended
  };
  [[nodiscard]] Stretch here() const;
  void advance(std::uint64_t bytes);

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t stride = 0;
    std::uint64_t rows = 0;
  };
  std::vector<Place> places_;
  std::size_t place_ = 0;
  std::uint64_t row_ = 0;
  std::uint64_t done_ = 0;  // of the row
};

}  // namespace tandem::exec
