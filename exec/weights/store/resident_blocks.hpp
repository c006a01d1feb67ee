#pragma once

// Weight blocks in memory that outlive the run which loaded them.

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
  // Gives back the memory of all blocks but `ids`, before what is missing is loaded.
  void keep_only(const std::set<std::string>& ids);
  // The block of that name, if it is here; else it is read from `file`, whose bytes were checked,
  // and kept. Throws Error if it cannot be read; what `progress` throws is thrown on.
  [[nodiscard]] std::shared_ptr<const AlignedBuffer> load(const BlockFile& file,
                                                          const WeightProgress& progress = {});
  [[nodiscard]] double bytes() const;
  // Bytes that all load() calls so far have read.
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  std::map<std::string, std::shared_ptr<const AlignedBuffer>> blocks_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace tandem::exec
