#include "exec/weights/store/block_assembly.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPortion = std::size_t{1} << 20U;
constexpr std::uint64_t kTellBytes = std::uint64_t{16} << 20U;
constexpr std::array<std::byte, 4096> kZeros{};

std::uint64_t first_of(const model::Digest& digest) {
  std::uint64_t value = 0;
  std::memcpy(&value, digest.data(), sizeof value);
  return value;
}

}  // namespace

void PieceIndex::read() {
  if (std::exchange(is_read_, true)) return;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(store_->folder() / "labels", ignored)) {
    const std::string name = file.path().filename().string();
    if (!fs::is_regular_file(store_->folder() / "blocks" / name, ignored)) continue;
    const auto label = store_->label_of(name);
    if (!label) continue;
    const auto block = static_cast<std::uint32_t>(blocks_.size());
    blocks_.push_back(name);
    for (std::uint32_t piece = 0; piece < label->pieces().count; ++piece)
      entries_.push_back({first_of(label->digests()[piece]), block, piece});
  }
  std::ranges::sort(entries_, {}, &Entry::digest);
}

std::optional<PieceIndex::Place> PieceIndex::find(const model::Digest& digest) {
  read();
  const std::uint64_t first = first_of(digest);
  auto entry = std::ranges::lower_bound(entries_, first, {}, &Entry::digest);
  for (; entry != entries_.end() && entry->digest == first; ++entry) {
    const std::string& block = blocks_[entry->block];
    if (!block.empty()) return Place{block, entry->piece};
  }
  return std::nullopt;
}

std::vector<std::uint32_t> PieceIndex::lacking(const BlockLabel& label) {
  std::vector<std::uint32_t> pieces;
  for (std::uint32_t piece = 0; piece < label.pieces().count; ++piece) {
    if (!find(label.digests()[piece])) pieces.push_back(piece);
  }
  return pieces;
}

void PieceIndex::discard(const std::string& block) {
  store_->discard(block);
  std::ranges::replace(blocks_, block, std::string());
}

std::span<const std::byte> PortionReader::read(std::uint64_t offset, std::uint64_t most) {
  if (offset < begin_ || offset >= begin_ + buffer_.size()) {
    if (offset >= file_.size()) {
      throw Error(file_.path().string() + ": ends at byte " + std::to_string(file_.size()) +
                  ", expected more; the file was cut short, remove it and start again");
    }
    file_.forget(begin_, buffer_.size());
    buffer_.resize(std::min<std::uint64_t>(kPortion, file_.size() - offset));
    begin_ = offset;
    file_.read_at(offset, buffer_);
  }
  const auto rest = std::span(buffer_).subspan(offset - begin_);
  return rest.first(std::min<std::uint64_t>(most, rest.size()));
}

// A piece of another block.
struct BlockAssembly::Donor {
  struct Block {
    Block(BlockFile donor, BlockLabel its) : file(std::move(donor)), label(std::move(its)) {}
    BlockFile file;
    BlockLabel label;
  };
  Donor(std::shared_ptr<const Block> donor, std::uint32_t piece)
      : block(std::move(donor)), source(block->label.pieces(), piece) {}
  std::shared_ptr<const Block> block;
  PieceSource source;
  std::shared_ptr<PortionReader> reader;  // of the block: its pieces are read side by side
};

BlockAssembly::BlockAssembly(PieceIndex& index, const BlockLabel& label,
                             std::vector<std::uint32_t> sent, WeightProgress progress)
    : index_(&index), label_(&label), progress_(std::move(progress)), walk_(label.pieces()) {
  struct Opened {
    std::shared_ptr<const Donor::Block> block;
    std::shared_ptr<PortionReader> reader;
  };
  std::map<std::string, Opened> opened;
  for (std::uint32_t piece = 0; piece < label.pieces().count; ++piece) {
    if (std::ranges::binary_search(sent, piece)) continue;
    auto& donor = donors_[piece];  // null: it has gone since somebody looked
    const auto place = index.find(label.digests()[piece]);
    if (!place) continue;
    const auto [found, fresh] = opened.try_emplace(place->block);
    if (fresh) {
      auto its = index.store().label_of(place->block);
      auto file = its ? index.store().find(*its) : std::nullopt;
      if (file) {
        found->second.reader = std::make_shared<PortionReader>(file->path);
        found->second.block =
            std::make_shared<const Donor::Block>(std::move(*file), std::move(*its));
      }
    }
    if (!found->second.block) {
      index.discard(place->block);
      continue;
    }
    donor = std::make_unique<Donor>(found->second.block, place->piece);
    donor->reader = found->second.reader;
  }
}

BlockAssembly::~BlockAssembly() = default;

// Zeros where there is nothing to copy: finish() sees other bytes than it should.
void BlockAssembly::copy(Donor* donor, std::uint64_t bytes) {
  while (bytes > 0) {
    std::span<const std::byte> part;
    const PieceSource::Stretch from =
        donor == nullptr ? PieceSource::Stretch{} : donor->source.here();
    try {
      if (from.bytes > 0) part = donor->reader->read(from.offset, std::min(from.bytes, bytes));
    } catch (const Error&) {
      donor = nullptr;
    }
    if (donor == nullptr || part.empty()) {
      part = std::span(kZeros).first(std::min<std::uint64_t>(kZeros.size(), bytes));
    } else {
      donor->source.advance(part.size());
    }
    writer_->append(part);
    bytes -= part.size();
  }
}

std::size_t BlockAssembly::append(std::span<const std::byte> bytes) {
  if (!writer_) writer_.emplace(index_->store(), label_->pieces());
  const std::size_t offered = bytes.size();
  for (PieceWalk::Stretch here = walk_.here(); here.bytes > 0; here = walk_.here()) {
    std::uint64_t step = here.bytes;
    if (!here.piece) {
      step = std::min<std::uint64_t>(step, kZeros.size());
      writer_->append(std::span(kZeros).first(step));
    } else if (const auto donor = donors_.find(*here.piece); donor != donors_.end()) {
      copy(donor->second.get(), step);
    } else {
      if (bytes.empty()) break;
      step = std::min<std::uint64_t>(step, bytes.size());
      writer_->append(bytes.first(step));
      bytes = bytes.subspan(step);
    }
    walk_.advance(step);
    if (!progress_ || writer_->written() - told_ < kTellBytes) continue;
    told_ = writer_->written();
    progress_(told_, label_->pieces().bytes);
  }
  return offered - bytes.size();
}

bool BlockAssembly::complete() const { return walk_.here().bytes == 0; }

std::optional<BlockFile> BlockAssembly::finish() {
  require(writer_.has_value() && complete(),
          "BlockAssembly: all pieces that are sent were appended");
  const std::vector<model::Digest> actual = writer_->digests();
  bool sound = true;
  for (std::uint32_t piece = 0; piece < actual.size(); ++piece) {
    if (actual[piece] == label_->digests()[piece]) continue;
    const auto donor = donors_.find(piece);
    if (donor == donors_.end()) {
      throw Error("weights: a piece that arrived has SHA-256 " +
                  model::to_hex(actual[piece]).substr(0, 12) + ", announced as " +
                  model::to_hex(label_->digests()[piece]).substr(0, 12) +
                  "; start again, the sender will check what it has cached");
    }
    if (donor->second) index_->discard(donor->second->block->file.id);
    sound = false;
  }
  if (!sound) return std::nullopt;
  return writer_->commit(*label_);
}

void send_pieces(const BlockFile& block, const BlockPieces& pieces,
                 std::span<const std::uint32_t> wanted, std::size_t portion,
                 const std::function<void(std::span<const std::byte>)>& sink) {
  require(portion > 0, "send_pieces: portions of at least one byte");
  PortionReader reader(block.path);
  std::vector<char> sent(pieces.count, 0);
  for (const std::uint32_t piece : wanted) sent.at(piece) = 1;
  std::vector<std::byte> waiting;
  PieceWalk walk(pieces);
  for (PieceWalk::Stretch here = walk.here(); here.bytes > 0; here = walk.here()) {
    std::uint64_t step = here.bytes;
    if (here.piece && sent[*here.piece] != 0) {
      const auto part =
          reader.read(here.offset, std::min<std::uint64_t>(step, portion - waiting.size()));
      waiting.insert(waiting.end(), part.begin(), part.end());
      step = part.size();
      if (waiting.size() == portion) {
        sink(waiting);
        waiting.clear();
      }
    }
    walk.advance(step);
  }
  if (!waiting.empty()) sink(waiting);
}

}  // namespace tandem::exec
