#include "exec/weights/store/block_label.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "model/base/digest.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::string_view kLabelMagic("tandem-block\0\0\0\0", 16);
constexpr std::uint64_t kVersion = 1;
// Limit of one label: far beyond any layout, and small enough to be stored.
constexpr std::uint64_t kMostPieces = std::uint64_t{1} << 16U;
constexpr std::uint64_t kMostBands = 64;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50U;

void put(std::vector<std::byte>& out, std::uint64_t value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out.push_back(static_cast<std::byte>(static_cast<unsigned char>(value >> (8 * i))));
  }
}

// The numbers of a label; nothing where they end.
class Numbers {
 public:
  explicit Numbers(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::optional<std::uint64_t> next() {
    if (bytes_.size() < sizeof(std::uint64_t)) return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof value; ++i) {
      value |= std::uint64_t{std::to_integer<unsigned char>(bytes_[i])} << (8 * i);
    }
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  // At most `most`, else nothing.
  std::optional<std::uint64_t> next(std::uint64_t most) {
    const auto value = next();
    return value && *value <= most ? value : std::nullopt;
  }
  std::optional<model::Digest> digest() {
    model::Digest value{};
    if (bytes_.size() < value.size()) return std::nullopt;
    std::ranges::copy(bytes_.first(value.size()), value.begin());
    bytes_ = bytes_.subspan(value.size());
    return value;
  }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

std::optional<PieceBand> parse_band(Numbers& numbers, std::uint64_t count) {
  const auto stride = numbers.next(kMostBytes);
  const auto rows = numbers.next(kMostBytes);
  const auto runs = numbers.next(count);
  if (!stride || !rows || !runs || *rows == 0 || *runs == 0) return std::nullopt;
  PieceBand band{*stride, *rows, {}};
  for (std::uint64_t i = 0; i < *runs; ++i) {
    const auto piece = numbers.next(count - 1);
    const auto offset = numbers.next(kMostBytes);
    const auto bytes = numbers.next(kMostBytes);
    if (!piece || !offset || !bytes || *bytes == 0) return std::nullopt;
    band.runs.push_back({static_cast<std::uint32_t>(*piece), *offset, *bytes});
  }
  return band;
}

// Runs follow each other without overlap, within `bytes`.
bool in_order(const std::vector<PieceBand>& bands, std::uint64_t bytes) {
  std::uint64_t end = 0;
  for (const PieceBand& band : bands) {
    const PieceRun& last = band.runs.back();
    if (band.runs.front().offset < end) return false;
    for (std::size_t i = 1; i < band.runs.size(); ++i) {
      const PieceRun& before = band.runs[i - 1];
      if (band.runs[i].offset < before.offset + before.bytes) return false;
    }
    const std::uint64_t width = last.offset + last.bytes - band.runs.front().offset;
    if (band.rows > 1 && band.stride < width) return false;
    if (band.stride > 0 && band.rows - 1 > bytes / band.stride) return false;
    end = last.offset + last.bytes + (band.rows - 1) * band.stride;
    if (end > bytes) return false;
  }
  return true;
}

}  // namespace

BlockLabel::BlockLabel(BlockPieces pieces, std::vector<model::Digest> digests)
    : pieces_(std::move(pieces)), digests_(std::move(digests)) {
  require(digests_.size() == pieces_.count, "BlockLabel: a digest for each piece");
  id_ = model::sha256_hex(serialize());
}

std::vector<std::byte> BlockLabel::serialize() const {
  const auto magic = std::as_bytes(std::span(kLabelMagic));
  std::vector<std::byte> out(magic.begin(), magic.end());
  put(out, kVersion);
  put(out, pieces_.bytes);
  put(out, pieces_.count);
  put(out, pieces_.bands.size());
  for (const model::Digest& digest : digests_) out.insert(out.end(), digest.begin(), digest.end());
  for (const PieceBand& band : pieces_.bands) {
    put(out, band.stride);
    put(out, band.rows);
    put(out, band.runs.size());
    for (const PieceRun& run : band.runs) {
      put(out, run.piece);
      put(out, run.offset);
      put(out, run.bytes);
    }
  }
  return out;
}

std::optional<BlockLabel> BlockLabel::parse(std::span<const std::byte> bytes) {
  const auto magic = std::as_bytes(std::span(kLabelMagic));
  if (bytes.size() < magic.size() || !std::ranges::equal(bytes.first(magic.size()), magic)) {
    return std::nullopt;
  }
  Numbers numbers(bytes.subspan(magic.size()));
  const auto version = numbers.next();
  const auto block_bytes = numbers.next(kMostBytes);
  const auto count = numbers.next(kMostPieces);
  const auto bands = numbers.next(kMostBands);
  if (version != kVersion || !block_bytes || !count || !bands) return std::nullopt;
  std::vector<model::Digest> digests;
  for (std::uint64_t i = 0; i < *count; ++i) {
    const auto digest = numbers.digest();
    if (!digest) return std::nullopt;
    digests.push_back(*digest);
  }
  BlockPieces pieces{*block_bytes, static_cast<std::uint32_t>(*count), {}};
  for (std::uint64_t i = 0; i < *bands; ++i) {
    auto band = *count > 0 ? parse_band(numbers, *count) : std::nullopt;
    if (!band) return std::nullopt;
    pieces.bands.push_back(std::move(*band));
  }
  if (!numbers.at_end() || !in_order(pieces.bands, *block_bytes)) return std::nullopt;
  return BlockLabel(std::move(pieces), std::move(digests));
}

PieceDigests::PieceDigests(const BlockPieces& pieces) : walk_(pieces), streams_(pieces.count) {}

void PieceDigests::update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const PieceWalk::Stretch here = walk_.here();
    require(here.bytes > 0, "PieceDigests: no more bytes than the block has");
    const auto part = bytes.first(std::min<std::uint64_t>(here.bytes, bytes.size()));
    if (here.piece) {
      streams_[*here.piece].update(part);
    } else {
      clear_ = clear_ && std::ranges::all_of(part, [](std::byte b) { return b == std::byte{0}; });
    }
    walk_.advance(part.size());
    bytes_ += part.size();
    bytes = bytes.subspan(part.size());
  }
}

std::vector<model::Digest> PieceDigests::finish() {
  std::vector<model::Digest> digests;
  digests.reserve(streams_.size());
  for (model::DigestStream& stream : streams_) digests.push_back(stream.digest());
  return digests;
}

}  // namespace tandem::exec
