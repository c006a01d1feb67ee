#pragma once

// How the bytes of a weight block divide into pieces, so that blocks of different shares can be
// recognised as partly equal.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/weights/source/layout.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// Columns of an FFN that make up one piece; more of a model with more than 4096 times as many.
inline constexpr std::int64_t kPieceColumns = 64;  // or, where `down` has longer blocks, one
// Rows of the vocabulary that make up one piece.
inline constexpr std::int64_t kPieceRows = 1024;

// Bytes of one piece that follow each other.
struct PieceRun {
  std::uint32_t piece = 0;
  std::uint64_t offset = 0;  // in the block
  std::uint64_t bytes = 0;
  bool operator==(const PieceRun&) const = default;
};

// Runs that repeat: each is found again `stride` bytes later, `rows` times in all.
struct PieceBand {
  std::uint64_t stride = 0;
  std::uint64_t rows = 1;
  std::vector<PieceRun> runs;  // in the order of their offsets, one a piece
  bool operator==(const PieceBand&) const = default;
};

// What lies in no run is padding, of zeros. The bytes of a piece, in the order of the bands and of
// the rows in a band, do not depend on what else the block holds: equal weights are equal pieces
// wherever they lie.
struct BlockPieces {
  std::uint64_t bytes = 0;  // of the block: whole pages
  std::uint32_t count = 0;  // of pieces
  std::vector<PieceBand> bands;
  [[nodiscard]] std::vector<std::uint64_t> piece_bytes() const;
  bool operator==(const BlockPieces&) const = default;
};

// The pieces of `block`: its norms and the biases that one device adds; then each query head (its
// rows of the query matrix, its columns of the output matrix, its biases; of blocks that are longer
// than a head as many heads as share whole ones, Transformer::head_unit), each key/value head,
// each kPieceColumns columns of the FFN (rows of gate and up, columns of down), counted from the
// model's first, not the share's; each kPieceRows rows of the vocabulary.
[[nodiscard]] BlockPieces pieces_of(const model::Transformer& transformer,
                                    const LayoutBlock& block);

// A place in a block's bytes that moves forward and knows whose they are. `pieces` outlives it.
class PieceWalk {
 public:
  explicit PieceWalk(const BlockPieces& pieces);
  struct Stretch {
    std::optional<std::uint32_t> piece;  // nothing: padding
    std::uint64_t offset = 0;            // in the block
    std::uint64_t bytes = 0;             // that follow each other from here; 0 at the block's end
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
