#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "exec/weights/files/atomic_file.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

using GgufEntry =
    std::variant<std::uint32_t, std::int32_t, float, bool, std::string, std::vector<std::string>,
                 std::vector<float>, std::vector<std::int32_t>>;
using GgufEntries = std::vector<std::pair<std::string, GgufEntry>>;

struct GgufTensorToWrite {
  std::string name;
  std::vector<std::int64_t> shape;  // as GgufTensor's
  model::WeightFormat format = model::WeightFormat::f32;
  [[nodiscard]] std::uint64_t bytes() const;
};

// Writes one GGUF file of version 3, little-endian: the header at once, then the tensors' bytes in
// order, in pieces of any size. Move-only. Throws Error (path, the system's reason, remedy).
class GgufWriter {
 public:
  GgufWriter(const std::filesystem::path& folder, const GgufEntries& entries,
             std::vector<GgufTensorToWrite> tensors);
  // Appends bytes of one tensor.
  void append(std::span<const std::byte> bytes);
  // Throws logic_error unless exactly the announced bytes were appended.
  void commit(const std::string& name);

 private:
  void pad();
  AtomicFile file_;
  std::vector<GgufTensorToWrite> tensors_;
  std::size_t tensor_ = 0;
  std::uint64_t written_ = 0;  // bytes of it
};

}  // namespace tandem::exec
