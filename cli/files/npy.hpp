#pragma once

// Matrices as files of NumPy's format, version 1.0 (numpy.lib.format): f32, [rows, columns],
// row-major.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "exec/weights/files/atomic_file.hpp"

namespace tandem::cli {

// Such a file. Throws logic_error unless there are that many values.
[[nodiscard]] std::string to_npy(std::span<const float> values, std::int64_t rows,
                                 std::int64_t columns);

// A file that is written row by row, so that it takes no memory. It appears under its name when it
// is finished, or not at all. All throw Error (path, the system's reason, remedy).
class NpyRows {
 public:
  // `path` is no device or pipe, as how many rows there are is written last.
  NpyRows(const std::filesystem::path& path, std::int64_t columns);
  // Throws logic_error unless there are as many values as columns.
  void add(std::span<const float> row);
  void finish();

 private:
  std::filesystem::path path_;
  std::filesystem::path target_;
  std::int64_t columns_;
  std::int64_t rows_ = 0;
  std::optional<exec::AtomicFile> file_;
};

}  // namespace tandem::cli
