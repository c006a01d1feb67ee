#include "exec/profiling/profile_disk.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
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

using Clock = std::chrono::steady_clock;

double elapsed_s(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The file's name, as long as this lives: until somebody has opened it. It is one that AtomicFile
// clears away, should this process be killed.
class Filler {
 public:
  // Writes `chunks` chunks, fewer if they take longer than `seconds`.
  Filler(const fs::path& folder, std::span<const std::byte> chunk, std::uint64_t chunks,
         double seconds) {
    const Clock::time_point start = Clock::now();
    AtomicFile file(folder);
    while (chunks_ < chunks && (chunks_ == 0 || elapsed_s(start) < seconds)) {
      file.write(chunk);
      file.settle();
      ++chunks_;
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
  [[nodiscard]] std::unique_ptr<DirectFile> open() const {
    return std::make_unique<DirectFile>(path_);
  }
  [[nodiscard]] std::uint64_t chunks() const { return chunks_; }

 private:
  fs::path path_;
  std::uint64_t chunks_ = 0;
};

void fill_with_noise(AlignedBuffer& buffer) {
  std::mt19937_64 random(1);
  auto* words = reinterpret_cast<std::uint64_t*>(buffer.data());
  std::generate_n(words, buffer.size() / sizeof(std::uint64_t), std::ref(random));
}

}  // namespace

DiskRate measure_disk(const DiskProfileOptions& options) {
  require(options.file_bytes > 0 && options.read_bytes > 0 && options.passes > 0,
          "measure_disk: sizes and passes are positive");
  const Clock::time_point began = Clock::now();
  const std::uint64_t chunk = direct_ceiling(std::min(options.read_bytes, options.file_bytes));
  std::uint64_t chunks = (options.file_bytes + chunk - 1) / chunk;
  AlignedBuffer buffer(chunk);
  fill_with_noise(buffer);
  const std::span<std::byte> bytes(buffer.data(), buffer.size());
  std::unique_ptr<DirectFile> opened;
  {
    const Filler filler(options.folder, bytes, chunks, options.seconds / 2.0);
    opened = filler.open();
    chunks = filler.chunks();
  }
  const DirectFile& file = *opened;
  DirectReader reader;
  const std::atomic<bool> stop = false;
  const auto file_bytes = static_cast<double>(chunk * chunks);
  std::vector<double> rates;
  for (int pass = 0; pass < options.passes; ++pass) {
    if (pass > 0 && elapsed_s(began) > options.seconds) break;
    const Clock::time_point start = Clock::now();
    for (std::uint64_t i = 0; i < chunks; ++i) {
      reader.read(file, i * chunk, bytes, stop);
      file.forget(i * chunk, chunk);
    }
    rates.push_back(file_bytes / std::max(elapsed_s(start), 1e-9));
  }
  std::optional<double> spread = relative_spread({&rates, 1});
  if (spread) spread = kept_deviation(*spread);
  const auto [slowest, fastest] = std::ranges::minmax(rates);
  return {.rate = model::BytesPerSecond{model::quantile(rates, 0.5)},
          .slowest = model::BytesPerSecond{slowest},
          .fastest = model::BytesPerSecond{fastest},
          .spread = spread,
          .file_bytes = chunk * chunks,
          .passes = static_cast<int>(rates.size()),
          .method = reader.method(file)};
}

}  // namespace tandem::exec
