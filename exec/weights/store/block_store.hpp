#pragma once

// Weight blocks on disk, by content: what outlives runs, on a worker and on the master. A folder:
//   blocks/<name>    the bytes of a block as they are in memory, whole pages
//   labels/<name>    what they consist of (BlockLabel), locked while a session uses the block; its
//                    time of change is that of the last use
//   index/<key>      which block a master made of which weights (block_maker.hpp)
//   seen/<name>      the identity of the block's file when its bytes were last hashed
//                    (block_record.hpp)
// Every file appears whole or not at all (AtomicFile). Names are digests only. Several processes
// may use one folder at the same time.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "exec/weights/files/atomic_file.hpp"
#include "exec/weights/files/read_file.hpp"
#include "exec/weights/store/block_label.hpp"

namespace tandem::exec {

// Returns $XDG_CACHE_HOME/tandem, else ~/.cache/tandem; empty if neither variable is set.
[[nodiscard]] std::filesystem::path default_cache_dir();
// Throws Error (what is missing, remedy) if `folder`, a cache that is needed, is empty.
void need_cache_dir(const std::filesystem::path& folder);

// Bytes that are done, of all. May throw: that ends the work and leaves the cache as it is.
using WeightProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// While it lives, nobody evicts the block. Move-only.
class BlockUse {
 public:
  explicit BlockUse(int descriptor) : descriptor_(descriptor) {}
  BlockUse(BlockUse&& other) noexcept;
  BlockUse& operator=(BlockUse&& other) noexcept;
  ~BlockUse();

 private:
  int descriptor_ = -1;
};

struct BlockFile {
  std::filesystem::path path;
  std::string id;
  std::uint64_t bytes = 0;
  std::shared_ptr<const BlockUse> use;
};

// What a store believes of blocks whose bytes it has not hashed itself.
enum class Trust : std::uint8_t {
  records,  // whoever hashed the file that is still there
  nothing
};

// All functions throw Error (path, the system's reason, remedy). Thread-safe.
class BlockStore {
 public:
  // `limit`: bytes of blocks; without, blocks are evicted rather than that the last of the file
  // system's space is taken (1 GiB, or a twentieth if that is less). A folder that does not exist
  // is made when something is kept. Without a folder there is nothing to be found, and what needs
  // one throws.
  explicit BlockStore(std::filesystem::path folder,
                      std::optional<std::uint64_t> limit = std::nullopt,
                      Trust trust = Trust::records);

  [[nodiscard]] bool has_folder() const { return !folder_.empty(); }
  // Throws Error if there is none.
  [[nodiscard]] const std::filesystem::path& folder() const;

  // The block of that label, now in use. Its size is right; its content is for check() to say. What
  // is no such file (a folder, a link, another size) is removed and not found.
  [[nodiscard]] std::optional<BlockFile> find(const BlockLabel& label);
  // Whether the block's bytes are what its label says: reads them all, unless this store has seen
  // them, or trusts a record of who has, and the file is the same by device, inode, size and times.
  // A block whose bytes differ is removed.
  [[nodiscard]] bool check(const BlockFile& block, const BlockLabel& label,
                           const WeightProgress& progress = {});
  // Bytes that check() has read so far.
  [[nodiscard]] std::uint64_t bytes_checked() const;

  // The label of a name, if it is there and is that name's.
  [[nodiscard]] std::optional<BlockLabel> label_of(const std::string& id) const;
  // Whatever has the block's place.
  void discard(const std::string& id);

  // Evicts what was used longest ago and is in no session's use, until `bytes` more fit. Throws
  // Error if a stated limit leaves no room for them.
  void make_room(std::uint64_t bytes);

 private:
  friend class BlockWriter;
  [[nodiscard]] std::filesystem::path place(const std::string& id) const;
  [[nodiscard]] std::filesystem::path record(const std::string& id) const;
  [[nodiscard]] std::shared_ptr<const BlockUse> use(const BlockLabel& label) const;
  [[nodiscard]] BlockFile keep(AtomicFile& file, const BlockLabel& label);
  // That the block's bytes were seen when its file had `stamp`.
  void remember(const BlockFile& block, const FileStamp& stamp);
  [[nodiscard]] bool is_known(const BlockFile& block, const FileStamp& stamp);

  std::filesystem::path folder_;
  std::optional<std::uint64_t> limit_;
  Trust trust_ = Trust::records;
  mutable std::mutex mutex_;
  std::map<std::string, FileStamp> checked_;
  std::uint64_t bytes_checked_ = 0;
};

// Puts one block into a store, portion by portion. Nothing is left behind unless commit() succeeds.
class BlockWriter {
 public:
  // `store` and `pieces` outlive it.
  BlockWriter(BlockStore& store, const BlockPieces& pieces);
  void append(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t written() const { return digests_.bytes(); }
  // When all bytes are there.
  [[nodiscard]] std::vector<model::Digest> digests();
  // Keeps the block; its bytes were seen to be what `label` says.
  [[nodiscard]] BlockFile commit(const BlockLabel& label);

 private:
  void flush();
  BlockStore* store_;
  const BlockPieces* pieces_;
  AtomicFile file_;
  PieceDigests digests_;
  std::vector<std::byte> waiting_;  // for a write of some size
  std::uint64_t settled_ = 0;
};

}  // namespace tandem::exec
