#pragma once

// The part of Protocol Buffers' wire format that tokenizer.model uses: numbered fields of a
// message.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::exec {

struct WireField {
  enum class Type { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  std::uint32_t number = 0;
  Type type = Type::varint;
  std::uint64_t value = 0;   // of the numeric types
  std::string_view bytes{};  // of type bytes
};

// Reads the fields of one message in order. The bytes must outlive the reader.
class WireReader {
 public:
  // `source` is the prefix of errors.
  WireReader(std::string_view message, const std::string& source)
      : rest_(message), source_(&source) {}

  // Returns the next field; nothing at the end. Throws Error for invalid bytes.
  [[nodiscard]] std::optional<WireField> next();

 private:
  std::uint64_t varint();
  std::uint64_t fixed(std::size_t bytes);
  [[noreturn]] void fail() const;

  std::string_view rest_;
  const std::string* source_;
};

void append_varint(std::string& out, std::uint32_t number, std::uint64_t value);
void append_bytes(std::string& out, std::uint32_t number, std::string_view bytes);
void append_float(std::string& out, std::uint32_t number, float value);

}  // namespace tandem::exec
