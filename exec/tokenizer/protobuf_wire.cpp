#include "exec/tokenizer/protobuf_wire.hpp"

#include <bit>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::uint64_t kLow7 = 0x7FU;
constexpr std::uint64_t kMore = 0x80U;

void append_raw_varint(std::string& out, std::uint64_t value) {
  for (; value > kLow7; value >>= 7U) out += static_cast<char>((value & kLow7) | kMore);
  out += static_cast<char>(value);
}

void append_key(std::string& out, std::uint32_t number, WireField::Type type) {
  append_raw_varint(out, (std::uint64_t{number} << 3U) | static_cast<std::uint64_t>(type));
}

}  // namespace

void WireReader::fail() const {
  throw Error(*source_ +
              ": not a SentencePiece model, expected its protocol buffer; the file is damaged or "
              "of another kind, take the tokenizer files of the Hugging Face folder");
}

std::uint64_t WireReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= (byte & kLow7) << shift;
    if ((byte & kMore) == 0) return value;
  }
  fail();
}

std::uint64_t WireReader::fixed(std::size_t bytes) {
  if (rest_.size() < bytes) fail();
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;)
    value = (value << 8U) | static_cast<unsigned char>(rest_[i]);
  rest_.remove_prefix(bytes);
  return value;
}

std::optional<WireField> WireReader::next() {
  constexpr std::uint64_t kMaxNumber = (1U << 29U) - 1;
  if (rest_.empty()) return std::nullopt;
  const std::uint64_t key = varint();
  if (key >> 3U == 0 || key >> 3U > kMaxNumber) fail();
  WireField field{.number = static_cast<std::uint32_t>(key >> 3U)};
  switch (key & 7U) {
    case 0:
      field.value = varint();
      return field;
    case 1:
      field.type = WireField::Type::fixed64;
      field.value = fixed(8);
      return field;
    case 2: {
      field.type = WireField::Type::bytes;
      const std::uint64_t size = varint();
      if (size > rest_.size()) fail();
      field.bytes = rest_.substr(0, size);
      rest_.remove_prefix(size);
      return field;
    }
    case 5:
      field.type = WireField::Type::fixed32;
      field.value = fixed(4);
      return field;
    default:  // groups, which the format does not use
      fail();
  }
}

void append_varint(std::string& out, std::uint32_t number, std::uint64_t value) {
  append_key(out, number, WireField::Type::varint);
  append_raw_varint(out, value);
}

void append_bytes(std::string& out, std::uint32_t number, std::string_view bytes) {
  append_key(out, number, WireField::Type::bytes);
  append_raw_varint(out, bytes.size());
  out += bytes;
}

void append_float(std::string& out, std::uint32_t number, float value) {
  append_key(out, number, WireField::Type::fixed32);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (unsigned shift = 0; shift < 32; shift += 8)
    out += static_cast<char>((bits >> shift) & 0xFFU);
}

}  // namespace tandem::exec
