#pragma once

// The safetensors format (huggingface/safetensors, README "Format"): eight bytes little-endian
// length of the header, JSON header {name: {dtype, shape, data_offsets}}, then the tensors' bytes
// without gaps. All files are untrusted.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/weights/files/atomic_file.hpp"
#include "exec/weights/files/read_file.hpp"
#include "exec/weights/source/weight_source.hpp"
#include "model/base/range.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

struct StoredTensor {
  std::string dtype;  // as in the file; F32, F16 and BF16 can be read
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;
};

using StoredTensors = std::map<std::string, StoredTensor>;

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

// Parses `header`, the JSON text after the length, of a file of `file_bytes`. Throws Error (source,
// tensor, value, expected, remedy) unless each tensor has a known dtype and a shape whose product
// fits its bytes, and all of them cover the file's data without overlap or gap.
[[nodiscard]] StoredTensors parse_safetensors_header(std::string_view header,
                                                     std::uint64_t file_bytes,
                                                     const std::string& source);

// Parses {tensor: file} of a model.safetensors.index.json. Throws Error unless every file is a
// plain name ending in .safetensors: the index must not lead out of its folder.
[[nodiscard]] std::map<std::string, std::string> parse_safetensors_index(std::string_view text,
                                                                         const std::string& source);

// The tensors of a Hugging Face folder: model.safetensors, or the files of its index. Headers are
// read at once, tensors on demand. Thread-safe after construction. Throws Error if a file or a
// tensor of the index is missing, or a tensor is in two files.
class SafetensorsFolder : public WeightSource {
 public:
  explicit SafetensorsFolder(const std::filesystem::path& folder);

  [[nodiscard]] StoredPlace place_of(const TensorSlice& slice, std::int32_t layer) const override;
  void check_tensors(const model::Transformer& transformer) const override;

 private:
  void add(const std::filesystem::path& path);
};

struct TensorToWrite {
  std::string name;
  std::vector<std::int64_t> shape;
  std::optional<model::DType> dtype{};  // default: the file's
};

// Returns the bytes of a tensor of that shape. Throws Error naming `tensor` if they overflow or a
// size is negative.
[[nodiscard]] std::uint64_t tensor_bytes(std::span<const std::int64_t> shape,
                                         std::uint64_t element_bytes, const std::string& tensor);

// Writes one safetensors file: the header at once, then the tensors' bytes in order, in pieces of
// any size. Move-only. Throws Error (path, the system's reason, remedy).
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& folder, model::DType dtype,
                    std::span<const TensorToWrite> tensors);
  void append(std::span<const std::byte> bytes) { file_.write(bytes); }
  // Throws logic_error unless exactly the announced bytes were appended.
  void commit(const std::string& name);

 private:
  AtomicFile file_;
  std::uint64_t expected_bytes_ = 0;
};

}  // namespace tandem::exec
