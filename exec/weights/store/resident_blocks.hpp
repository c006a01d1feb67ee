#pragma once

// Weight blocks in memory, kept between runs.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "exec/weights/files/aligned_buffer.hpp"
#include "exec/weights/store/block_store.hpp"

namespace tandem::exec {

// Thread-compatible.
class ResidentBlocks {
 public:
  [[nodiscard]] bool contains(const std::string& id) const { return blocks_.contains(id); }
  // Releases all blocks except `ids`, before missing ones are loaded.
  void keep_only(const std::set<std::string>& ids);
  // Returns the block of that name, if it is here; else reads it from `file`, whose bytes were
  // verified, and keeps it. Throws Error if it cannot be read; passes on exceptions of `progress`.
  [[nodiscard]] std::shared_ptr<const AlignedBuffer> load(const BlockFile& file,
                                                          const WeightProgress& progress = {});
  [[nodiscard]] double bytes() const;
  // Returns the bytes read by all load() calls so far.
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  std::map<std::string, std::shared_ptr<const AlignedBuffer>> blocks_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace tandem::exec
