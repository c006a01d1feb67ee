#pragma once

// Shard files on disk: what the master makes for each device, and what a worker keeps so that it is
// not sent the same bytes twice. Both use one layout of a cache folder:
//   shards/<sha256 of the file's bytes>.shard
//   index/<sha256 of weights' fingerprint, geometry and share>     holds the shard's sha256
// Every file appears whole or not at all (AtomicFile). Names are made of verified
// hexadecimal digests only.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "model/memory.hpp"
#include "model/transformer.hpp"

namespace tandem::exec {

struct ShardFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::string sha256;    // lower-case hexadecimal, of the file's bytes
  bool checked = false;  // its bytes were seen to have that digest, by the call that returned it
};

// $XDG_CACHE_HOME/tandem, else ~/.cache/tandem. Throws Error if neither variable is set.
[[nodiscard]] std::filesystem::path default_cache_dir();

// Bytes of a shard file that are written, or read, of all of its bytes. May throw: that ends the
// work and leaves the cache as it is.
using ShardProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

struct ShardFileOptions {
  // Of a file that is found: reads it all and checks its digest. Without, only its size and header.
  bool verify = false;
  // Now and then.
  ShardProgress slicing{};
  ShardProgress verifying{};
  // A file in the cache was damaged and has been made again: which, and in what way.
  std::function<void(const std::string& warning)> on_damage{};
};

// The shard file of `share`, sliced out of the Hugging Face folder `weights` piece by piece (a few
// MiB of memory, whatever the model), or found in the cache if the folder's files (names, sizes,
// times of change), geometry and share are those of an earlier call. What is damaged in the cache,
// the shard or what remembers it, is no error but made again. Read it with Shard::read or
// send_shard. Throws Error: file, tensor, value, expected, remedy; leaves no partial file behind.
[[nodiscard]] ShardFile make_shard_file(const std::filesystem::path& weights,
                                        const model::Transformer& transformer,
                                        const model::Share& share,
                                        const std::filesystem::path& cache_dir,
                                        const ShardFileOptions& options = {});

// The cached shard of that digest. The file is read and its digest verified; what is not what its
// name says (another file, a folder) is removed and not found. Throws Error if `sha256` is not 64
// lower-case hexadecimal characters (it comes from a peer), and if the file cannot be opened.
[[nodiscard]] std::optional<ShardFile> find_shard(const std::filesystem::path& cache_dir,
                                                  const std::string& sha256,
                                                  const ShardProgress& progress = {});

// Calls `sink` with the file's bytes in order, at most `chunk_bytes` at a time. Throws Error if the
// file cannot be read or its size is not file.bytes.
void send_shard(const ShardFile& file, std::size_t chunk_bytes,
                const std::function<void(std::span<const std::byte>)>& sink);

// Receives a shard of known size and digest into the cache, chunk by chunk. The temporary file is
// removed unless finish() succeeds.
class ShardReceiver {
 public:
  // Throws Error unless `sha256` is 64 lower-case hexadecimal characters, and if the folder cannot
  // be written. Pass as `bytes` Shard::file_bytes of the expected geometry and share, so that a
  // peer cannot fill the disk.
  ShardReceiver(const std::filesystem::path& cache_dir, const std::string& sha256,
                std::uint64_t bytes);
  ~ShardReceiver();
  ShardReceiver(ShardReceiver&&) noexcept;
  ShardReceiver& operator=(ShardReceiver&&) noexcept;

  // Throws Error if more than `bytes` come, or the disk is full.
  void append(std::span<const std::byte> chunk);
  [[nodiscard]] std::uint64_t received() const;
  // Throws Error (expected and actual size or digest) and removes the file unless it is what was
  // announced.
  ShardFile finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Stores bytes that are in memory: ShardReceiver in one call.
ShardFile store_shard(const std::filesystem::path& cache_dir, const std::string& sha256,
                      std::span<const std::byte> bytes);

}  // namespace tandem::exec
