#include "exec/weights/store/block_store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "exec/weights/files/block_record.hpp"
#include "exec/weights/files/read_file.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = std::size_t{1} << 20U;
// Written bytes that may wait in the page cache.
constexpr std::uint64_t kSettleBytes = std::uint64_t{16} << 20U;
constexpr std::uint64_t kMostLabelBytes = std::uint64_t{64} << 20U;
constexpr std::uint64_t kSpare = std::uint64_t{1} << 30U;
// Without locks on a file system, uses are unknown.
constexpr std::chrono::hours kUnlocked{24};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// Whatever is there, a folder too: names in the cache are its own.
void clear_place(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return;
  throw Error(path.string() + ": damaged, and cannot be removed: " + error.message() +
              "; remove it, or choose another cache folder");
}

void commit(AtomicFile& file, const fs::path& folder, const fs::path& name) {
  std::error_code ignored;
  // A file is replaced; a folder would be an obstacle.
  if (fs::is_directory(folder / name, ignored)) clear_place(folder / name);
  file.commit(name);
}

enum class Lock : std::uint8_t { taken, refused, unknown };

Lock lock(int descriptor, int how) {
  while (flock(descriptor, how) != 0) {
    if (errno == EINTR) continue;
    return errno == EWOULDBLOCK ? Lock::refused : Lock::unknown;
  }
  return Lock::taken;
}

// A file that counts against the limit.
struct Entry {
  fs::path path;
  std::uint64_t bytes = 0;
  fs::file_time_type used;
};

void list(const fs::path& folder, const fs::path& labels, std::vector<Entry>& entries) {
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(folder, ignored)) {
    std::error_code error;
    if (!fs::is_regular_file(file.symlink_status(error))) continue;
    // A file being written (AtomicFile) is not a block yet; its writer removes it.
    if (file.path().filename().string().starts_with('.')) continue;
    const std::uint64_t bytes = file.file_size(error);
    auto used = file.last_write_time(error);
    if (error) continue;  // another process removed it
    const auto touched = fs::last_write_time(labels / file.path().filename(), error);
    if (!error) used = touched;
    entries.push_back({file.path(), bytes, used});
  }
}

// False: a session uses it.
bool evict(const Entry& entry, const fs::path& label, const fs::path& record) {
  const int descriptor = open(label.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const Lock held = descriptor < 0 ? Lock::taken : lock(descriptor, LOCK_EX | LOCK_NB);
  const bool old = fs::file_time_type::clock::now() - entry.used > kUnlocked;
  const bool free = held == Lock::taken || (held == Lock::unknown && old);
  std::error_code ignored;
  if (free) {
    fs::remove(entry.path, ignored);
    fs::remove(label, ignored);
    fs::remove(record, ignored);
  }
  if (descriptor >= 0) close(descriptor);
  return free;
}

}  // namespace

fs::path default_cache_dir() {
  // Read once at start-up, before any thread that could change the environment.
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && fs::path(cache).is_absolute()) return fs::path(cache) / "tandem";
  const char* home = std::getenv("HOME");
  if (home != nullptr && fs::path(home).is_absolute()) return fs::path(home) / ".cache" / "tandem";
  return {};
}

void need_cache_dir(const fs::path& folder) {
  if (!folder.empty()) return;
  throw Error(
      "cache folder: neither XDG_CACHE_HOME nor HOME is set to an absolute path; set one, or give "
      "'--cache DIR'");
}

BlockUse::BlockUse(BlockUse&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
BlockUse& BlockUse::operator=(BlockUse&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}
BlockUse::~BlockUse() {
  if (descriptor_ >= 0) close(descriptor_);
}

BlockStore::BlockStore(fs::path folder, std::optional<std::uint64_t> limit, Trust trust)
    : folder_(std::move(folder)), limit_(limit), trust_(trust) {}

const fs::path& BlockStore::folder() const {
  need_cache_dir(folder_);
  return folder_;
}

fs::path BlockStore::place(const std::string& id) const { return folder() / "blocks" / id; }
fs::path BlockStore::record(const std::string& id) const { return folder() / "seen" / id; }

std::optional<BlockLabel> BlockStore::label_of(const std::string& id) const {
  const fs::path path = folder() / "labels" / id;
  if (!is_there(path)) return std::nullopt;
  try {
    const std::string text = read_text(path, kMostLabelBytes);
    auto label = BlockLabel::parse(std::as_bytes(std::span(text.data(), text.size())));
    if (label && label->id() == id) return label;
  } catch (const Error&) {
    // A folder in its place, or a disk that cannot read it: it is made again.
  }
  return std::nullopt;
}

std::shared_ptr<const BlockUse> BlockStore::use(const BlockLabel& label) const {
  const fs::path labels = folder() / "labels";
  const fs::path path = labels / label.id();
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!label_of(label.id())) {
      AtomicFile file(labels);
      file.write(label.serialize());
      commit(file, labels, label.id());
    }
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0 && errno == ENOENT) continue;
    if (descriptor < 0) {
      throw Error(path.string() + ": cannot open: " +
                  model::system_fault(errno, "check the path and its permissions"));
    }
    BlockUse held(descriptor);
    static_cast<void>(lock(descriptor, LOCK_SH));
    struct stat status {};
    // An evicting process may have removed it before the lock was taken.
    if (fstat(descriptor, &status) != 0 || status.st_nlink == 0) continue;
    futimens(descriptor, nullptr);  // of another user's file: it keeps its time
    return std::make_shared<const BlockUse>(std::move(held));
  }
  throw Error(path.string() + ": is removed as often as it is made; let nothing write there");
}

std::optional<BlockFile> BlockStore::find(const BlockLabel& label) {
  const fs::path path = place(label.id());
  if (!is_there(path)) return std::nullopt;
  auto held = use(label);
  std::error_code error;
  const bool sound = fs::is_regular_file(fs::symlink_status(path, error)) &&
                     fs::file_size(path, error) == label.pieces().bytes && !error;
  if (sound) return BlockFile{path, label.id(), label.pieces().bytes, std::move(held)};
  discard(label.id());
  return std::nullopt;
}

void BlockStore::remember(const BlockFile& block, const FileStamp& stamp) {
  {
    const std::lock_guard lock(mutex_);
    checked_[block.id] = stamp;
  }
  static_cast<void>(record_block(record(block.id), block.id, block.path, stamp));
}

bool BlockStore::is_known(const BlockFile& block, const FileStamp& stamp) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = checked_.find(block.id);
    if (known != checked_.end() && known->second == stamp) return true;
  }
  return trust_ == Trust::records && is_recorded(record(block.id), block.id, stamp);
}

bool BlockStore::check(const BlockFile& block, const BlockLabel& label,
                       const WeightProgress& progress) {
  const auto before = stamp_of(block.path);
  if (before && is_known(block, *before)) return true;
  // A file that does not open may be sound: too many are open, or it is another user's.
  const ReadFile file(block.path);
  PieceDigests digests(label.pieces());
  std::vector<std::byte> chunk(std::min<std::uint64_t>(kChunk, block.bytes));
  std::uint64_t at = 0;
  bool readable = file.size() == block.bytes;
  while (readable && at < block.bytes) {
    const auto part =
        std::span(chunk).first(std::min<std::uint64_t>(chunk.size(), block.bytes - at));
    try {
      file.read_at(at, part);
    } catch (const Error&) {
      readable = false;  // it ends early, or the disk cannot read it
      break;
    }
    file.forget(at, part.size());
    digests.update(part);
    at += part.size();
    // An exception of `progress` is no fault of the file, and is passed on.
    if (progress && (at % kSettleBytes == 0 || at == block.bytes)) progress(at, block.bytes);
  }
  {
    const std::lock_guard lock(mutex_);
    bytes_checked_ += at;
  }
  if (readable && digests.padding_is_clear() && digests.finish() == label.digests()) {
    if (before) remember(block, *before);
    return true;
  }
  discard(block.id);
  return false;
}

std::uint64_t BlockStore::bytes_checked() const {
  const std::lock_guard lock(mutex_);
  return bytes_checked_;
}

void BlockStore::discard(const std::string& id) {
  clear_place(place(id));
  std::error_code ignored;  // of a file that is gone it says nothing
  fs::remove_all(record(id), ignored);
}

BlockFile BlockStore::keep(AtomicFile& file, const BlockLabel& label) {
  BlockFile block{place(label.id()), label.id(), label.pieces().bytes, use(label)};
  commit(file, folder() / "blocks", label.id());
  if (const auto stamp = stamp_of(block.path)) remember(block, *stamp);
  return block;
}

void BlockStore::make_room(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> entries;
  list(folder() / "blocks", folder() / "labels", entries);
  list(folder() / "shards", folder() / "labels", entries);  // of versions before this one
  std::uint64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  std::uint64_t limit = limit_.value_or(0);
  if (!limit_) {
    std::error_code error;
    const fs::space_info space = fs::space(folder(), error);
    if (error) return;  // the folder does not exist yet, or cannot be read
    const std::uint64_t spare = std::min<std::uint64_t>(kSpare, space.capacity / 20);
    limit = total + space.available - std::min<std::uint64_t>(total + space.available, spare);
  }
  if (total + bytes <= limit) return;
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (total + bytes <= limit) return;
    const fs::path name = entry.path.filename();
    if (evict(entry, folder() / "labels" / name, record(name.string()))) total -= entry.bytes;
  }
  if (total + bytes <= limit || !limit_) return;
  throw Error("cache: " + folder().string() + " may hold " +
              model::to_text(model::Bytes{static_cast<double>(*limit_)}) + ", but " +
              model::to_text(model::Bytes{static_cast<double>(total + bytes)}) +
              " of weights are in use; raise '--cache-size', or choose another cache folder");
}

BlockWriter::BlockWriter(BlockStore& store, const BlockPieces& pieces)
    : store_(&store),
      pieces_(&pieces),
      file_([&] {
        store.make_room(pieces.bytes);
        return AtomicFile(store.folder() / "blocks");
      }()),
      digests_(pieces) {
  waiting_.reserve(std::min<std::uint64_t>(kChunk, pieces.bytes));
}

void BlockWriter::append(std::span<const std::byte> bytes) {
  digests_.update(bytes);
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kChunk - waiting_.size()));
    waiting_.insert(waiting_.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    if (waiting_.size() == kChunk) flush();
  }
}

void BlockWriter::flush() {
  file_.write(waiting_);
  waiting_.clear();
  if (file_.written() - settled_ < kSettleBytes) return;
  file_.settle();
  settled_ = file_.written();
}

std::vector<model::Digest> BlockWriter::digests() {
  require(digests_.bytes() == pieces_->bytes, "BlockWriter: all bytes of the block");
  flush();
  return digests_.finish();
}

BlockFile BlockWriter::commit(const BlockLabel& label) { return store_->keep(file_, label); }

}  // namespace tandem::exec
