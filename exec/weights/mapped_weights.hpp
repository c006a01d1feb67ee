#pragma once

// The files of a WeightSource as memory, for products that read weights where they are stored.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/weights/files/mapped_file.hpp"
#include "exec/weights/source/layout.hpp"
#include "exec/weights/source/weight_source.hpp"

namespace tandem::exec {

// Rows of a tensor in a mapped file.
struct MappedPart {
  std::size_t file = 0;
  std::string tensor;
  model::WeightFormat format = model::WeightFormat::f32;
  std::span<const std::byte> bytes;
  bool in_pairs = false;  // StoredPlace::paired_rows
};

struct PartsToRead {
  int threads = 1;
  // Where it is noted that all numbers of certain parts of certain files are finite; empty:
  // nowhere.
  std::filesystem::path notes{};
  bool believe = true;    // such a note, by whatever process; else they are looked at again
  bool may_copy = false;  // later, if that makes products faster (move_choice.hpp)
  // Bytes that are done, of all. What it throws ends the work.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
};

// Thread-safe.
class MappedWeights {
 public:
  // Maps all files of `weights`, as they were opened. Throws Error as MappedFile does.
  explicit MappedWeights(const WeightSource& weights);

  // The stored bytes that a product with `slice`, of `layer`, can use as they are: a matrix in its
  // format, whole rows in their order (or those of whole heads in pairs), where numbers of 16 and
  // 32 bits begin at multiples of their size. Nothing of what has to be copied.
  [[nodiscard]] std::optional<MappedPart> find(const WeightSource& weights,
                                               const TensorSlice& slice, std::int32_t layer) const;
  // Touches every page of `parts`, with several threads, and unless it is noted of these parts and
  // files by their identities, looks at all numbers. Throws Error (file, tensor) for those that are
  // not finite, and as check().
  void read(std::span<const MappedPart> parts, const PartsToRead& how) const;

  // The mapped file that has these bytes; null if none has.
  [[nodiscard]] const MappedFile* file_of(const std::byte* bytes) const;

  // Throws Error (file, what happened, remedy) if a file lost bytes or was written since it was
  // opened: what has been computed from it since then is worth nothing.
  void check() const;

 private:
  std::vector<std::unique_ptr<const MappedFile>> files_;
  std::vector<FileStamp> opened_;
  std::string fingerprint_;
};

// Whether every number that `stored`, whole blocks of `format`, says is finite.
[[nodiscard]] bool all_finite(model::WeightFormat format, std::span<const std::byte> stored);

}  // namespace tandem::exec
