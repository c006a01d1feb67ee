#include "cli/files/npy.hpp"

#include <bit>
#include <cstddef>
#include <system_error>

#include "cli/files/files.hpp"
#include "model/base/error.hpp"

namespace tandem::cli {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kHeader = 128;  // bytes, a multiple of 64, whatever the shape

std::string header(std::int64_t rows, std::int64_t columns) {
  constexpr std::size_t kPrefix = 10;  // magic, version, length of the description
  std::string description = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                            std::to_string(rows) + ", " + std::to_string(columns) + "), }";
  description.resize(kHeader - kPrefix - 1, ' ');
  description += '\n';
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\0';
  file += static_cast<char>(description.size() % 256);
  file += static_cast<char>(description.size() / 256);
  return file + description;
}

// Faults of the file behind `path`, which has no name yet.
template <class Action>
void named(const fs::path& path, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    throw Error(path.string() + ": cannot write: " + error.what());
  }
}

}  // namespace

std::string to_npy(std::span<const float> values, std::int64_t rows, std::int64_t columns) {
  require(static_cast<std::int64_t>(values.size()) == rows * columns, "npy: rows times columns");
  std::string file = header(rows, columns);
  return file.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

NpyRows::NpyRows(const fs::path& path, std::int64_t columns) : path_(path), columns_(columns) {
  check_writable(path);
  std::error_code fault;
  if (fs::exists(path, fault) && !fs::is_regular_file(path, fault))
    throw Error(path.string() + ": neither a file nor a new name, expected one; choose another");
  // Through a symbolic link the file behind it is replaced, not the link.
  target_ = fs::weakly_canonical(path, fault);
  if (fault) target_ = path;
  named(path_, [&] {
    file_.emplace(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
    file_->write(header(0, columns_));
  });
}

void NpyRows::add(std::span<const float> row) {
  require(static_cast<std::int64_t>(row.size()) == columns_, "npy: a value for each column");
  named(path_, [&] { file_->write(std::as_bytes(row)); });
  ++rows_;
}

void NpyRows::finish() {
  named(path_, [&] {
    file_->overwrite(0, header(rows_, columns_));
    file_->commit(target_.filename());
  });
}

}  // namespace tandem::cli
