#include "exec/profiling/profile_disk.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <span>
#include <system_error>
#include <vector>

#include "exec/profiling/profile_errors.hpp"
#include "exec/streaming/direct_file.hpp"
#include "exec/weights/files/aligned_buffer.hpp"
#include "exec/weights/files/atomic_file.hpp"
#include "model/base/error.hpp"
#include "model/base/statistics.hpp"
#include "model/report/trace.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

// The file's name, as long as this lives: until somebody has opened it. It is one that AtomicFile
// clears away, should this process be killed.
class Filler {
 public:
  Filler(const fs::path& folder, std::span<const std::byte> chunk, std::uint64_t chunks) {
    AtomicFile file(folder);
    for (std::uint64_t i = 0; i < chunks; ++i) {
      file.write(chunk);
      file.settle();
    }
    const std::string name = ".tandem-partial-profile-" + std::to_string(::getpid());
    path_ = folder / name;
    file.commit(name);
  }
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;
  ~Filler() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::unique_ptr<DirectFile> open_filled(const fs::path& folder, std::span<const std::byte> chunk,
                                        std::uint64_t chunks) {
  const Filler filler(folder, chunk, chunks);
  return std::make_unique<DirectFile>(filler.path());
}

void fill_with_noise(AlignedBuffer& buffer) {
  std::mt19937_64 random(1);
  auto* words = reinterpret_cast<std::uint64_t*>(buffer.data());
  std::generate_n(words, buffer.size() / sizeof(std::uint64_t), std::ref(random));
}

}  // namespace

DiskRate measure_disk(const DiskProfileOptions& options) {
  require(options.file_bytes > 0 && options.read_bytes > 0 && options.passes > 0,
          "measure_disk: sizes and passes are positive");
  const std::uint64_t chunk = direct_ceiling(std::min(options.read_bytes, options.file_bytes));
  const std::uint64_t chunks = (options.file_bytes + chunk - 1) / chunk;
  AlignedBuffer buffer(chunk);
  fill_with_noise(buffer);
  const std::span<std::byte> bytes(buffer.data(), buffer.size());
  const std::unique_ptr<DirectFile> opened = open_filled(options.folder, bytes, chunks);
  const DirectFile& file = *opened;
  DirectReader reader;
  const std::atomic<bool> stop = false;
  const auto file_bytes = static_cast<double>(chunk * chunks);
  std::vector<double> rates;
  for (int pass = 0; pass < options.passes; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < chunks; ++i) {
      reader.read(file, i * chunk, bytes, stop);
      file.forget(i * chunk, chunk);
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    rates.push_back(file_bytes / std::max(taken.count(), 1e-9));
  }
  const auto [slowest, fastest] = std::ranges::minmax(rates);
  return {.rate = model::BytesPerSecond{model::quantile(rates, 0.5)},
          .slowest = model::BytesPerSecond{slowest},
          .fastest = model::BytesPerSecond{fastest},
          .spread = kept_deviation(relative_spread({&rates, 1})),
          .file_bytes = chunk * chunks,
          .method = reader.method(file)};
}

}  // namespace tandem::exec
