#pragma once

// SHA-256, by which plans, files and blocks of weights are distinguished.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tandem::model {

using Digest = std::array<std::byte, 32>;

// The digest of bytes that come in portions. Move-only.
class DigestStream {
 public:
  DigestStream();
  DigestStream(DigestStream&&) noexcept;
  DigestStream& operator=(DigestStream&&) noexcept;
  ~DigestStream();

  void update(std::span<const std::byte> bytes);
  // The digest of what came so far; ends the stream.
  [[nodiscard]] Digest digest();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// `digest` as 64 lower-case hexadecimal characters.
[[nodiscard]] std::string to_hex(const Digest& digest);

// The hexadecimal digest of bytes that are all there.
[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);
[[nodiscard]] std::string sha256_hex(std::string_view text);

}  // namespace tandem::model
