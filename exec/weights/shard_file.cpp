#include "exec/weights/shard_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "exec/weights/atomic_file.hpp"
#include "exec/weights/digest_stream.hpp"
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

std::optional<ShardFile> find_indexed(const fs::path& cache_dir, const fs::path& entry,
                                      std::uint64_t bytes) {
  std::error_code error;
  if (!fs::exists(entry, error)) return std::nullopt;
  const std::string sha256 = read_text(entry, 2 * kDigestCharacters);
  if (!is_digest(sha256)) return std::nullopt;
  const fs::path path = shards_folder(cache_dir) / file_name(sha256);
  if (fs::file_size(path, error) != bytes || error) return std::nullopt;
  return ShardFile{path, bytes, sha256};
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
                          const ShardProgress& progress) {
  const SafetensorsFolder folder(weights);
  const ShardLayout layout = layout_of(transformer, share);
  const std::vector<std::byte> header = shard_header(transformer, share, layout);
  const std::uint64_t bytes = header.size() + layout.bytes;
  const std::string key = index_key(weights, folder, header);
  const fs::path index_folder = cache_dir / "index";
  if (auto found = find_indexed(cache_dir, index_folder / key, bytes)) return *found;

  AtomicFile file(shards_folder(cache_dir));
  DigestStream digest;
  std::uint64_t settled = 0;
  const auto put = [&](std::span<const std::byte> piece) {
    digest.update(piece);
    file.write(piece);
    if (file.written() - settled < kSettleBytes) return;
    file.settle();
    settled = file.written();
    if (progress) progress(settled, bytes);
  };
  put(header);
  for (const LayoutBlock& block : layout.blocks) stream_block(folder, block, put);
  const std::string sha256 = digest.hex();
  // Weights that changed while they were read must not be remembered under their old fingerprint.
  if (index_key(weights, folder, header) != key) {
    throw Error(weights.string() + ": the weights changed while they were read; start again");
  }
  file.commit(file_name(sha256));
  AtomicFile entry(index_folder);
  entry.write(sha256);
  entry.commit(key);
  return {shards_folder(cache_dir) / file_name(sha256), bytes, sha256};
}

std::optional<ShardFile> find_shard(const fs::path& cache_dir, const std::string& sha256) {
  const fs::path path = shards_folder(cache_dir) / file_name(sha256);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const ShardFile file{path, fs::file_size(path, error), sha256};
  if (error) return std::nullopt;
  DigestStream digest;
  send_shard(file, kChunk, [&](std::span<const std::byte> piece) { digest.update(piece); });
  if (digest.hex() == sha256) return file;
  fs::remove(path, error);
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
                "; remove the shard from the sender's cache and start again");
  }
  state->file.commit(file_name(state->sha256));
  return {state->folder / file_name(state->sha256), state->bytes, state->sha256};
}

ShardFile store_shard(const fs::path& cache_dir, const std::string& sha256,
                      std::span<const std::byte> bytes) {
  ShardReceiver receiver(cache_dir, sha256, bytes.size());
  receiver.append(bytes);
  return receiver.finish();
}

}  // namespace tandem::exec
