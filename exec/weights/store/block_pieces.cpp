#include "exec/weights/store/block_pieces.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::int64_t kMostColumnPieces = 4096;

enum class PieceKind : std::uint8_t {
  rest,
  query_heads,
  kv_head,
  columns,
  embedding_rows,
  head_rows
};

// How a slice is divided: the index along one side that defines a piece.
struct Cut {
  PieceKind kind = PieceKind::rest;
  std::int64_t width = 0;  // of a piece; 0: the whole slice is of one
  bool columns = false;    // along the columns
};

Cut cut_of(const model::Transformer& m, WeightName weight) {
  using enum WeightName;
  const std::int64_t least = std::max<std::int64_t>(1, std::lcm(kPieceColumns, m.column_block()));
  const std::int64_t groups = (m.intermediate + least - 1) / least;
  const std::int64_t columns =
      least * std::max<std::int64_t>(1, (groups + kMostColumnPieces - 1) / kMostColumnPieces);
  const std::int64_t heads = m.head_unit() * m.head_dim;
  switch (weight) {
    case query:
      return {PieceKind::query_heads, heads, false};
    case query_bias:
    case out:
      return {PieceKind::query_heads, heads, true};
    case key:
    case value:
      return {PieceKind::kv_head, m.head_dim, false};
    case key_bias:
    case value_bias:
      return {PieceKind::kv_head, m.head_dim, true};
    case gate:
    case up:
      return {PieceKind::columns, columns, false};
    case gate_bias:
    case up_bias:
    case down:
      return {PieceKind::columns, columns, true};
    case embedding:
      return {PieceKind::embedding_rows, kPieceRows, false};
    case head:
      return {PieceKind::head_rows, kPieceRows, false};
    default:
      return {};
  }
}

}  // namespace

std::vector<std::uint64_t> BlockPieces::piece_bytes() const {
  std::vector<std::uint64_t> sizes(count);
  for (const PieceBand& band : bands) {
    for (const PieceRun& run : band.runs) sizes.at(run.piece) += run.bytes * band.rows;
  }
  return sizes;
}

BlockPieces pieces_of(const model::Transformer& transformer, const LayoutBlock& block) {
  BlockPieces pieces;
  pieces.bytes = (block.bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  std::map<std::pair<PieceKind, std::int64_t>, std::uint32_t> numbers;
  const auto number = [&](PieceKind kind, std::int64_t index) {
    const auto [found, fresh] = numbers.try_emplace({kind, index}, pieces.count);
    if (fresh) ++pieces.count;
    return found->second;
  };
  for (const TensorSlice& slice : block.slices) {
    const Cut cut = cut_of(transformer, slice.weight);
    const std::uint64_t row_bytes = slice.row_bytes();
    if (slice.elements() == 0) continue;
    PieceBand band;
    if (cut.columns && slice.rows.size() > 1) {
      band.rows = static_cast<std::uint64_t>(slice.rows.size());
      band.stride = row_bytes;
    }
    if (cut.width == 0) {
      band.runs.push_back({number(cut.kind, 0), slice.offset, slice.bytes()});
      pieces.bands.push_back(std::move(band));
      continue;
    }
    const model::Range range = cut.columns ? slice.columns : slice.rows;
    // Pieces begin and end with whole blocks of the format: where a head or a share does.
    const auto bytes_of = [&](std::int64_t count) {
      return cut.columns ? static_cast<std::uint64_t>(model::row_bytes(slice.format, count))
                         : static_cast<std::uint64_t>(count) * row_bytes;
    };
    // In a tensor that fuses several weights, outputs are counted from the weight's first.
    const bool outputs = slice.shape.size() == 1 || !cut.columns;
    const std::int64_t begin = range.begin - (outputs ? slice.first : 0);
    const std::int64_t end = begin + range.size();
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t index = at / cut.width;
      const std::int64_t next = std::min(end, (index + 1) * cut.width);
      band.runs.push_back(
          {number(cut.kind, index), slice.offset + bytes_of(at - begin), bytes_of(next - at)});
      at = next;
    }
    pieces.bands.push_back(std::move(band));
  }
  return pieces;
}

PieceWalk::PieceWalk(const BlockPieces& pieces) : pieces_(&pieces) {}

const PieceRun* PieceWalk::run() const {
  return band_ == pieces_->bands.size() ? nullptr : &pieces_->bands[band_].runs[run_];
}

std::uint64_t PieceWalk::run_offset() const {
  return run()->offset + row_ * pieces_->bands[band_].stride;
}

PieceWalk::Stretch PieceWalk::here() const {
  const PieceRun* present = run();
  if (present == nullptr) return {std::nullopt, at_, pieces_->bytes - at_};
  const std::uint64_t begin = run_offset();
  if (at_ < begin) return {std::nullopt, at_, begin - at_};
  return {present->piece, at_, begin + present->bytes - at_};
}

void PieceWalk::advance(std::uint64_t bytes) {
  require(bytes <= here().bytes, "PieceWalk: within a stretch");
  at_ += bytes;
  const PieceRun* present = run();
  if (present == nullptr || at_ < run_offset() + present->bytes) return;
  const PieceBand& band = pieces_->bands[band_];
  if (++run_ < band.runs.size()) return;
  run_ = 0;
  if (++row_ < band.rows) return;
  row_ = 0;
  ++band_;
}

PieceSource::PieceSource(const BlockPieces& pieces, std::uint32_t piece) {
  for (const PieceBand& band : pieces.bands) {
    const auto found = std::ranges::find(band.runs, piece, &PieceRun::piece);
    if (found == band.runs.end()) continue;
    places_.push_back({found->offset, found->bytes, band.stride, band.rows});
  }
}

PieceSource::Stretch PieceSource::here() const {
  if (place_ == places_.size()) return {};
  const Place& place = places_[place_];
  return {place.offset + row_ * place.stride + done_, place.bytes - done_};
}

void PieceSource::advance(std::uint64_t bytes) {
  require(bytes <= here().bytes, "PieceSource: within a stretch");
  if (place_ == places_.size()) return;
  done_ += bytes;
  if (done_ < places_[place_].bytes) return;
  done_ = 0;
  if (++row_ < places_[place_].rows) return;
  row_ = 0;
  ++place_;
}

}  // namespace tandem::exec
