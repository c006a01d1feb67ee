#pragma once

// The fields that messages are made of, little-endian, every length checked. Private to wire.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec::wire {

inline constexpr std::size_t kDigestBytes = 64;

template <class Unsigned>
void store(Unsigned value, std::byte* out) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    out[i] = static_cast<std::byte>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

template <class Unsigned>
Unsigned load(const std::byte* in) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value = static_cast<Unsigned>(value | (static_cast<Unsigned>(in[i]) << (8 * i)));
  }
  return value;
}

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(&out) {}
  void u8(std::uint8_t value) { number(value); }
  void u32(std::uint32_t value) { number(value); }
  void u64(std::uint64_t value) { number(value); }
  void i32(std::int32_t value) { number(static_cast<std::uint32_t>(value)); }
  void raw(std::span<const std::byte> bytes) {
    out_->insert(out_->end(), bytes.begin(), bytes.end());
  }
  void raw(std::string_view text) { raw(std::as_bytes(std::span(text.data(), text.size()))); }
  void text(std::string_view value, std::size_t limit) {
    require(value.size() <= limit, "wire: text above its limit");
    u32(static_cast<std::uint32_t>(value.size()));
    raw(value);
  }

 private:
  template <class Unsigned>
  void number(Unsigned value) {
    const std::size_t at = out_->size();
    out_->resize(at + sizeof(Unsigned));
    store(value, out_->data() + at);
  }
  std::vector<std::byte>* out_;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::string_view subject)
      : bytes_(bytes), subject_(subject) {}

  std::uint8_t u8() { return load<std::uint8_t>(take(1).data()); }
  std::uint32_t u32() { return load<std::uint32_t>(take(4).data()); }
  std::uint64_t u64() { return load<std::uint64_t>(take(8).data()); }
  std::int32_t i32() { return static_cast<std::int32_t>(u32()); }
  std::int32_t natural(std::string_view what) {
    const std::int32_t value = i32();
    if (value < 0) fail(what, std::to_string(value), "0 or more");
    return value;
  }
  bool flag(std::string_view what) {
    const std::uint8_t value = u8();
    if (value > 1) fail(what, std::to_string(value), "0 or 1");
    return value == 1;
  }
  // Enumerators are 1 .. last.
  template <class Enum>
  Enum choice(std::string_view what, Enum last) {
    const std::uint8_t value = u8();
    if (value < 1 || value > static_cast<std::uint8_t>(last)) {
      fail(what, std::to_string(value), "1 to " + std::to_string(static_cast<int>(last)));
    }
    return static_cast<Enum>(value);
  }
  std::size_t count(std::string_view what, std::size_t limit, std::size_t element_bytes) {
    const std::uint32_t value = u32();
    if (value > limit) fail(what, std::to_string(value), "at most " + std::to_string(limit));
    if (value > bytes_.size() / element_bytes) {
      fail(what, std::to_string(value), "no more than the message holds");
    }
    return value;
  }
  std::string text(std::string_view what, std::size_t limit) {
    const std::span<const std::byte> bytes = take(count(what, limit, 1));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string digest(std::string_view what) {
    std::string value = text(what, kDigestBytes);
    const bool hex = std::all_of(value.begin(), value.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    });
    if (value.size() != kDigestBytes || !hex) {
      fail(what, "'" + model::printable(value, kDigestBytes) + "'",
           "64 lower-case hexadecimal characters");
    }
    return value;
  }
  std::span<const std::byte> rest() { return take(bytes_.size()); }
  std::span<const std::byte> take(std::size_t size) {
    if (size > bytes_.size()) {
      fail("length", std::to_string(bytes_.size()) + " bytes left",
           std::to_string(size) + " for the next field");
    }
    const std::span<const std::byte> taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }
  void end() const {
    if (!bytes_.empty()) fail("length", std::to_string(bytes_.size()) + " bytes left over", "none");
  }
  [[noreturn]] void fail(std::string_view what, const std::string& got,
                         const std::string& expected) const {
    throw Error("message " + std::string(subject_) + ": " + std::string(what) + " is " + got +
                ", expected " + expected + "; the peer is not a tandem of this version");
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view subject_;
};

}  // namespace tandem::exec::wire
