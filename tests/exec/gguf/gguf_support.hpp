#pragma once

// GGUF files of a few bytes, sound or not, for tests.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::testing {

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
inline std::string u32(std::uint32_t value) { return raw(value); }
inline std::string u64(std::uint64_t value) { return raw(value); }
inline std::string gguf_text(std::string_view text) { return u64(text.size()) + std::string(text); }

// Numbers of types: 4 u32, 6 f32, 7 bool, 8 text, 9 array.
inline std::string entry(std::string_view key, std::uint32_t type, const std::string& value) {
  return gguf_text(key) + u32(type) + value;
}
inline std::string entry(std::string_view key, std::string_view text) {
  return entry(key, 8, gguf_text(text));
}
inline std::string entry(std::string_view key, std::uint32_t number) {
  return entry(key, 4, u32(number));
}
inline std::string real_entry(std::string_view key, float number) {
  return entry(key, 6, raw(number));
}

// Sizes as the file has them, the contiguous one first.
inline std::string tensor_entry(std::string_view name, const std::vector<std::uint64_t>& sizes,
                                std::uint32_t type, std::uint64_t offset) {
  std::string bytes = gguf_text(name) + u32(static_cast<std::uint32_t>(sizes.size()));
  for (const std::uint64_t size : sizes) bytes += u64(size);
  return bytes + u32(type) + u64(offset);
}

struct GgufParts {
  std::vector<std::string> entries{};
  std::vector<std::string> tensors{};
  std::size_t data = 0;  // bytes, zeros
  std::uint32_t version = 3;
  std::string magic = "GGUF";

  [[nodiscard]] std::string text() const {
    std::string bytes = magic + u32(version) + u64(tensors.size()) + u64(entries.size());
    for (const std::string& one : entries) bytes += one;
    for (const std::string& one : tensors) bytes += one;
    if (data == 0) return bytes;
    bytes.resize((bytes.size() + 31) / 32 * 32, '\0');
    return bytes + std::string(data, '\0');
  }
};

}  // namespace tandem::testing
