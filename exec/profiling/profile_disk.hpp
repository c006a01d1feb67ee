#pragma once

// How fast this machine's disk is, for weights that are streamed from it.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include "model/base/units.hpp"

namespace tandem::exec {

struct DiskProfileOptions {
  std::filesystem::path folder{};          // on the disk; made if need be
  std::uint64_t file_bytes = 256U << 20U;  // written, read, removed
  std::uint64_t read_bytes = 8U << 20U;    // of one read: about a block of weights
  int passes = 5;                          // over the file, at most
  // About how long it may take: half of it to write, after which the file stays smaller, and until
  // its end to begin passes, of which one is always made.
  double seconds = std::numeric_limits<double>::infinity();
};

struct DiskRate {
  model::BytesPerSecond rate{};  // the median pass
  model::BytesPerSecond slowest{};
  model::BytesPerSecond fastest{};
  // Standard deviation of the logarithms of the passes' rates; none: one pass.
  std::optional<double> spread{};
  std::uint64_t file_bytes = 0;  // whole reads of whole pages
  int passes = 0;                // that were made
  std::string method{};          // "O_DIRECT, io_uring" and so on
};

// The rate of sequential reads as a device streams its weights (exec/streaming): past the page
// cache where the file system can, one block after another into one buffer. The file holds nothing
// that a disk could compress, and is gone afterwards, also after an error. What a disk's own cache
// holds still counts. Throws Error (folder, the system's reason, remedy) if the file cannot be
// written or read; logic_error unless sizes and passes are positive.
[[nodiscard]] DiskRate measure_disk(const DiskProfileOptions& options);

}  // namespace tandem::exec
