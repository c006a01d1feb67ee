#pragma once

// The files of a WeightSource as memory, for products that read weights in place.

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
  // Folder of notes that all numbers of certain parts of certain files are finite; empty: none.
  std::filesystem::path notes{};
  bool believe = true;    // trusts a note of any process; else the numbers are read again
  bool may_copy = false;  // later, if that makes products faster (move_choice.hpp)
  // Receives the bytes done, of all. An exception ends the work.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
};

// Thread-safe.
class MappedWeights {
 public:
  // Maps all files of `weights`, as opened. Throws Error as MappedFile does.
  explicit MappedWeights(const WeightSource& weights);

  // Returns the stored bytes of `slice`, of `layer`, if a product can use them in place: a matrix
  // in its format, whole rows in order (or those of whole heads in pairs), with numbers of 16 and
  // 32 bits at multiples of their size. Nothing if it must be copied.
  [[nodiscard]] std::optional<MappedPart> find(const WeightSource& weights,
                                               const TensorSlice& slice, std::int32_t layer) const;
  // Touches every page of `parts`, with several threads, and checks all numbers unless a note
  // confirms these parts and files by their identities. Throws Error (file, tensor) for numbers
  // that are not finite, and as check().
  void read(std::span<const MappedPart> parts, const PartsToRead& how) const;

  // Returns the mapped file that contains these bytes; null if there is none.
  [[nodiscard]] const MappedFile* file_of(const std::byte* bytes) const;

  // Throws Error (file, what happened, remedy) if a file lost bytes or was written since it was
  // opened: results computed from it since then are invalid.
  void check() const;

 private:
  std::vector<std::unique_ptr<const MappedFile>> files_;
  std::vector<FileStamp> opened_;
  std::string fingerprint_;
};

// Returns whether every number of `stored`, whole blocks of `format`, is finite.
[[nodiscard]] bool all_finite(model::WeightFormat format, std::span<const std::byte> stored);

}  // namespace tandem::exec
