#pragma once

// The header of a GGUF file: the model's metadata and the places of its tensors. Format: ggml's
// docs/gguf.md, versions 2 and 3, little-endian.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tandem::exec {

// Integers and booleans are one kind, as files differ in which they write.
struct GgufValue {
  using Numbers = std::vector<std::int64_t>;
  using Reals = std::vector<double>;
  using Texts = std::vector<std::string>;
  std::variant<std::int64_t, double, bool, std::string, Numbers, Reals, Texts> value{};
};

// An element type of tensors: its number in files, its name, and how its blocks are stored.
struct GgmlType {
  std::uint32_t id = 0;
  std::string_view name{};
  std::int64_t elements = 1;  // of a block
  std::int64_t bytes = 4;
};
// Returns nothing for an unknown number or name.
[[nodiscard]] std::optional<GgmlType> find_ggml_type(std::uint32_t id);
[[nodiscard]] std::optional<GgmlType> find_ggml_type(std::string_view name);

struct GgufTensor {
  GgmlType type{};
  std::vector<std::int64_t> shape;  // [n] or [rows, columns], and so on: the last is contiguous
  std::uint64_t offset = 0;         // in the file
  std::uint64_t bytes = 0;
};

struct GgufHeader {
  std::uint32_t version = 0;
  std::map<std::string, GgufValue> values;
  std::map<std::string, GgufTensor> tensors;
  std::uint64_t alignment = 32;
};

// Reads `bytes` from an offset that lies, with all of them, within the file.
using GgufBytes = std::function<void(std::uint64_t offset, std::span<std::byte> bytes)>;

// Returns the header of a file of `file_bytes`. Throws Error (source, key or tensor, value,
// expected, remedy) unless the file is sound: version 2 or 3, no duplicate key or tensor, an
// alignment that is a power of two, all strings, arrays and tensors within the file, tensors of
// known types with rows of whole blocks. In the order of their offsets, tensors begin at the first
// multiple of the alignment behind the one before, and the file ends behind the last, so a tensor
// whose declared type has another size than the written one is rejected. Types of equal size cannot
// be distinguished: F16 declared as BF16 (2 bytes an element), or Q4_0 as IQ4_NL (18 bytes a
// block), is accepted and read as declared.
[[nodiscard]] GgufHeader parse_gguf_header(const GgufBytes& bytes, std::uint64_t file_bytes,
                                           const std::string& source);

}  // namespace tandem::exec
