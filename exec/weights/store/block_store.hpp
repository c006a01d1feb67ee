#pragma once

// Weight blocks on disk, by content, on workers and on the master; kept between runs. A folder:
//   blocks/<name>    the bytes of a block as in memory, whole pages
//   labels/<name>    its pieces (BlockLabel), locked while a session uses the block; its time of
//   change
//                    is that of the last use
//   index/<key>      the block that a master made of certain weights (block_maker.hpp)
//   seen/<name>      the identity of the block's file when its bytes were last hashed
//                    (block_record.hpp)
// Every file appears as a whole or not at all (AtomicFile). Names are digests only. Several
// processes may use one folder at the same time.

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
// Throws Error (what is missing, remedy) if `folder`, a required cache, is empty.
void need_cache_dir(const std::filesystem::path& folder);

// Receives the bytes done, of all. May throw: that ends the work and leaves the cache unchanged.
using WeightProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Protects the block from eviction during its lifetime. Move-only.
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

// A store's trust in blocks whose bytes it has not hashed itself.
enum class Trust : std::uint8_t {
  records,  // trusts any process that hashed the file, if the file is still the same
  nothing
};

// All functions throw Error (path, the system's reason, remedy). Thread-safe.
class BlockStore {
 public:
  // `limit`: bytes of blocks; without it, blocks are evicted to keep free space on the file system
  // (1 GiB, or a twentieth if that is less). A folder that does not exist is created when something
  // is kept. Without a folder nothing is found, and operations that need one throw.
  explicit BlockStore(std::filesystem::path folder,
                      std::optional<std::uint64_t> limit = std::nullopt,
                      Trust trust = Trust::records);

  [[nodiscard]] bool has_folder() const { return !folder_.empty(); }
  // Throws Error if there is none.
  [[nodiscard]] const std::filesystem::path& folder() const;

  // Returns the block of that label, now in use. Its size is right; check() verifies its content.
  // Anything else in its place (a folder, a link, another size) is removed and not found.
  [[nodiscard]] std::optional<BlockFile> find(const BlockLabel& label);
  // Returns whether the block's bytes match its label. Reads them all, unless this store has
  // verified them, or trusts a record of a verification, and the file is the same by device, inode,
  // size and times. Removes a block whose bytes differ.
  [[nodiscard]] bool check(const BlockFile& block, const BlockLabel& label,
                           const WeightProgress& progress = {});
  // Returns the bytes that check() has read so far.
  [[nodiscard]] std::uint64_t bytes_checked() const;

  // Returns the label of a name, if it exists and matches the name.
  [[nodiscard]] std::optional<BlockLabel> label_of(const std::string& id) const;
  // Removes whatever is in the block's place.
  void discard(const std::string& id);

  // Evicts the least recently used blocks that no session uses, until `bytes` more fit. Throws
  // Error if a stated limit leaves no room for them.
  void make_room(std::uint64_t bytes);

 private:
  friend class BlockWriter;
  [[nodiscard]] std::filesystem::path place(const std::string& id) const;
  [[nodiscard]] std::filesystem::path record(const std::string& id) const;
  [[nodiscard]] std::shared_ptr<const BlockUse> use(const BlockLabel& label) const;
  [[nodiscard]] BlockFile keep(AtomicFile& file, const BlockLabel& label);
  // Records that the block's bytes were verified when its file had `stamp`.
  void remember(const BlockFile& block, const FileStamp& stamp);
  [[nodiscard]] bool is_known(const BlockFile& block, const FileStamp& stamp);

  std::filesystem::path folder_;
  std::optional<std::uint64_t> limit_;
  Trust trust_ = Trust::records;
  mutable std::mutex mutex_;
  std::map<std::string, FileStamp> checked_;
  std::uint64_t bytes_checked_ = 0;
};

// Writes one block into a store, portion by portion. Leaves nothing behind unless commit()
// succeeds.
class BlockWriter {
 public:
  // `store` and `pieces` outlive it.
  BlockWriter(BlockStore& store, const BlockPieces& pieces);
  void append(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t written() const { return digests_.bytes(); }
  // Returns the digests, once all bytes are there.
  [[nodiscard]] std::vector<model::Digest> digests();
  // Keeps the block, whose bytes were verified against `label`.
  [[nodiscard]] BlockFile commit(const BlockLabel& label);

 private:
  void flush();
  BlockStore* store_;
  const BlockPieces* pieces_;
  AtomicFile file_;
  PieceDigests digests_;
  std::vector<std::byte> waiting_;  // buffers small writes
  std::uint64_t settled_ = 0;
};

}  // namespace tandem::exec
