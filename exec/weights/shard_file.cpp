#include "exec/weights/shard_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "exec/weights/atomic_file.hpp"
#include "exec/weights/digest_stream.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/read_file.hpp"
#include "exec/weights/shard.hpp"
#include "exec/weights/shard_format.hpp"
#include "model/digest.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigestCharacters = 64;
constexpr std::size_t kChunk = std::size_t{1} << 20U;
// Written bytes that may wait in the page cache.
constexpr std::uint64_t kSettleBytes = std::uint64_t{16} << 20U;

bool is_digest(const std::string& text) {
  return text.size() == kDigestCharacters && std::ranges::all_of(text, [](char c) {
           return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f');
         });
}

void check_digest(const std::string& sha256) {
  if (is_digest(sha256)) return;
  throw Error("shard: a digest of " + std::to_string(sha256.size()) +
              " characters, expected 64 lower-case hexadecimal ones; run the same version of "
              "tandem on every device");
}

fs::path shards_folder(const fs::path& cache_dir) { return cache_dir / "shards"; }

fs::path file_name(const std::string& sha256) {
  check_digest(sha256);
  return sha256 + ".shard";
}

// What the bytes of a shard depend on, without reading the weights: the files' names, sizes and
// times of change, and the header (version, geometry, share, blocks).
std::string index_key(const fs::path& weights, const SafetensorsFolder& folder,
                      std::span<const std::byte> header) {
  std::string text = model::sha256_hex(header) + "\n";
  std::vector<fs::path> files = folder.files();
  const fs::path index = weights / "model.safetensors.index.json";
  std::error_code ignored;
  if (fs::exists(index, ignored)) files.push_back(index);
  for (const fs::path& file : files) {
    std::error_code error;
    const fs::path real = fs::canonical(file, error);
    const auto changed = fs::last_write_time(file, error);
    const auto size = fs::file_size(file, error);
    if (error) {
      throw Error(file.string() + ": " + error.message() + "; check the path and its permissions");
    }
    text += real.string() + "\n" + std::to_string(size) + "\n" +
            std::to_string(changed.time_since_epoch().count()) + "\n";
  }
  return model::sha256_hex(text);
}

// Whatever is there, a folder too: names in the cache are its own.
void discard(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return;
  throw Error(path.string() + ": damaged, and cannot be removed: " + error.message() +
              "; remove it, or choose another cache folder");
}

void commit(AtomicFile& file, const fs::path& folder, const fs::path& name) {
  std::error_code ignored;
  // A file is replaced; a folder would be in the way.
  if (fs::is_directory(folder / name, ignored)) discard(folder / name);
  file.commit(name);
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// Why the file is not the one of `bytes` bytes that begin with `header`; empty if it is.
std::string fault_of(const fs::path& path, std::span<const std::byte> header, std::uint64_t bytes) {
  try {
    const ReadFile file(path);
    if (file.size() != bytes) {
      return std::to_string(file.size()) + " bytes, expected " + std::to_string(bytes);
    }
    std::vector<std::byte> actual(header.size());
    file.read_at(0, actual);
    return std::ranges::equal(actual, header) ? "" : "not a shard of this model and share";
  } catch (const Error& error) {
    return error.what();
  }
}

// The digest that an index entry holds; nothing, and `fault` says why, if it holds none.
std::optional<std::string> digest_in(const fs::path& entry, std::string& fault) {
  try {
    std::string sha256 = read_text(entry, 2 * kDigestCharacters);
    if (is_digest(sha256)) return sha256;
    fault = "holds no digest";
  } catch (const Error& error) {
    fault = error.what();
  }
  return std::nullopt;
}

// Nothing if the file ends early, or the disk cannot read it. What `progress` throws says nothing
// of the file, and is thrown on.
std::optional<std::string> digest_of(const ReadFile& file, const ShardProgress& progress) {
  DigestStream digest;
  std::vector<std::byte> chunk(std::min<std::uint64_t>(kChunk, file.size()));
  for (std::uint64_t at = 0; at < file.size(); at += chunk.size()) {
    const auto part =
        std::span(chunk).first(std::min<std::uint64_t>(chunk.size(), file.size() - at));
    try {
      file.read_at(at, part);
    } catch (const Error&) {
      return std::nullopt;
    }
    file.forget(at, part.size());
    digest.update(part);
    const std::uint64_t done = at + part.size();
    if (progress && done % kSettleBytes == 0) progress(done, file.size());
  }
  return digest.hex();
}

// The shard of an earlier call that `entry` remembers, if it is sound.
std::optional<ShardFile> find_indexed(const fs::path& cache_dir, const fs::path& entry,
                                      std::span<const std::byte> header, std::uint64_t bytes,
                                      const ShardFileOptions& options) {
  const auto damaged = [&](const fs::path& path, const std::string& fault) {
    if (options.on_damage) {
      options.on_damage("cache: " + path.string() + " was damaged (" + fault +
                        "), making it again");
    }
    return std::nullopt;
  };
  if (!is_there(entry)) return std::nullopt;
  std::string fault;
  const std::optional<std::string> sha256 = digest_in(entry, fault);
  if (!sha256) return damaged(entry, fault);
  const fs::path path = shards_folder(cache_dir) / file_name(*sha256);
  if (!is_there(path)) return std::nullopt;
  fault = fault_of(path, header, bytes);
  if (!fault.empty()) return damaged(path, fault);
  if (!options.verify) return ShardFile{path, bytes, *sha256};
  if (auto found = find_shard(cache_dir, *sha256, options.verifying)) return found;
  return damaged(path, "its bytes have another SHA-256 than its name");
}

}  // namespace

fs::path default_cache_dir() {
  // Read once at start-up, before any thread that could change the environment.
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && fs::path(cache).is_absolute()) return fs::path(cache) / "tandem";
  const char* home = std::getenv("HOME");
  if (home != nullptr && fs::path(home).is_absolute()) return fs::path(home) / ".cache" / "tandem";
  throw Error("cache folder: neither XDG_CACHE_HOME nor HOME is set to an absolute path; set one");
}

ShardFile make_shard_file(const fs::path& weights, const model::Transformer& transformer,
                          const model::Share& share, const fs::path& cache_dir,
                          const ShardFileOptions& options) {
  const SafetensorsFolder folder = open_weights(weights, transformer);
  const ShardLayout layout = layout_of(transformer, share);
  const std::vector<std::byte> header = shard_header(transformer, share, layout);
  const std::uint64_t bytes = header.size() + layout.bytes;
  const std::string key = index_key(weights, folder, header);
  const fs::path index_folder = cache_dir / "index";
  if (auto found = find_indexed(cache_dir, index_folder / key, header, bytes, options)) {
    return *found;
  }

  AtomicFile file(shards_folder(cache_dir));
  DigestStream digest;
  std::uint64_t settled = 0;
  const auto put = [&](std::span<const std::byte> piece) {
    digest.update(piece);
    file.write(piece);
    if (file.written() - settled < kSettleBytes) return;
    file.settle();
    settled = file.written();
    if (options.slicing) options.slicing(settled, bytes);
  };
  put(header);
  for (const LayoutBlock& block : layout.blocks) stream_block(folder, block, put);
  const std::string sha256 = digest.hex();
  // Weights that changed while they were read must not be remembered under their old fingerprint.
  if (index_key(weights, folder, header) != key) {
    throw Error(weights.string() + ": the weights changed while they were read; start again");
  }
  commit(file, shards_folder(cache_dir), file_name(sha256));
  AtomicFile entry(index_folder);
  entry.write(sha256);
  commit(entry, index_folder, key);
  return {shards_folder(cache_dir) / file_name(sha256), bytes, sha256, true};
}

std::optional<ShardFile> find_shard(const fs::path& cache_dir, const std::string& sha256,
                                    const ShardProgress& progress) {
  const fs::path path = shards_folder(cache_dir) / file_name(sha256);
  if (!is_there(path)) return std::nullopt;
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    // A file that does not open may be sound: too many are open, or it is another user's.
    const ReadFile file(path);
    if (digest_of(file, progress) == sha256) return ShardFile{path, file.size(), sha256, true};
  }
  discard(path);
  return std::nullopt;
}

void send_shard(const ShardFile& file, std::size_t chunk_bytes,
                const std::function<void(std::span<const std::byte>)>& sink) {
  require(chunk_bytes > 0, "send_shard: chunks of at least one byte");
  const ReadFile in(file.path);
  if (in.size() != file.bytes) {
    throw Error(file.path.string() + ": " + std::to_string(in.size()) + " bytes, expected " +
                std::to_string(file.bytes) + "; remove it and start again");
  }
  std::vector<std::byte> chunk(std::min<std::uint64_t>(chunk_bytes, file.bytes));
  for (std::uint64_t at = 0; at < file.bytes; at += chunk.size()) {
    const auto part =
        std::span(chunk).first(std::min<std::uint64_t>(chunk.size(), file.bytes - at));
    in.read_at(at, part);
    in.forget(at, part.size());
    sink(part);
  }
}

struct ShardReceiver::State {
  fs::path folder;
  std::string sha256;
  std::uint64_t bytes = 0;
  AtomicFile file;
  DigestStream digest;
  std::uint64_t settled = 0;
};

ShardReceiver::ShardReceiver(const fs::path& cache_dir, const std::string& sha256,
                             std::uint64_t bytes) {
  check_digest(sha256);
  const fs::path folder = shards_folder(cache_dir);
  state_ = std::make_unique<State>(State{folder, sha256, bytes, AtomicFile(folder), {}, 0});
}
ShardReceiver::~ShardReceiver() = default;
ShardReceiver::ShardReceiver(ShardReceiver&&) noexcept = default;
ShardReceiver& ShardReceiver::operator=(ShardReceiver&&) noexcept = default;

void ShardReceiver::append(std::span<const std::byte> chunk) {
  if (chunk.size() > state_->bytes - received()) {
    throw Error("shard " + state_->sha256 + ": more than the announced " +
                std::to_string(state_->bytes) +
                " bytes arrived; run the same version of tandem on every device");
  }
  state_->digest.update(chunk);
  state_->file.write(chunk);
  if (received() - state_->settled < kSettleBytes) return;
  state_->file.settle();
  state_->settled = received();
}

std::uint64_t ShardReceiver::received() const { return state_->file.written(); }

ShardFile ShardReceiver::finish() {
  const std::unique_ptr<State> state = std::move(state_);  // removes the file if this throws
  require(state != nullptr, "shard receiver: finish() was called before");
  if (state->file.written() != state->bytes) {
    throw Error("shard " + state->sha256 + ": " + std::to_string(state->file.written()) +
                " bytes arrived, expected " + std::to_string(state->bytes) +
                "; the sender stopped early, see its log");
  }
  const std::string actual = state->digest.hex();
  if (actual != state->sha256) {
    throw Error("shard " + state->sha256 + ": the bytes that arrived have SHA-256 " + actual +
                "; start again, the sender will check what it has cached");
  }
  commit(state->file, state->folder, file_name(state->sha256));
  return {state->folder / file_name(state->sha256), state->bytes, state->sha256, true};
}

ShardFile store_shard(const fs::path& cache_dir, const std::string& sha256,
                      std::span<const std::byte> bytes) {
  ShardReceiver receiver(cache_dir, sha256, bytes.size());
  receiver.append(bytes);
  return receiver.finish();
}

}  // namespace tandem::exec
